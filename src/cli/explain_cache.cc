// `quire explain cache`: the same generation with and without the KV cache, side by side.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <memory>

#include "cli/engine_flags.h"
#include "cli/explain.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "formats/printable.h"

namespace quire {
namespace {

struct CacheFlags {
  EngineFlags engine;
  std::string prompt;
  int num_generated = 16;
  bool json = false;
};

// What it took to get one token of the answer.
struct TokenCost {
  int32_t token = 0;
  int computed = 0;  // tokens that went through the model
  double forward_ms = 0;
};

// Generates greedily; how the answer is computed is all that differs between two runs.
Result<std::vector<TokenCost>> Generate(Engine& engine, std::span<const int32_t> prompt,
                                        int num_generated, bool use_kv_cache) {
  std::vector<TokenCost> costs;
  TokenCost next;
  RequestResult result;
  bool has_ended = false;
  engine.SetStepObserver([&](const StepReport& report) {
    for (const StepItem& item : report.items) next.computed += item.num_tokens;
    next.forward_ms += report.duration_ms;
  });
  const RequestHooks hooks{.on_piece =
                               [&](const AnswerPiece& piece) {
                                 next.token = piece.token;
                                 costs.push_back(std::exchange(next, {}));
                               },
                           .on_finish =
                               [&](RequestResult ended) {
                                 result = std::move(ended);
                                 has_ended = true;
                               }};
  const Result<RequestId> id = engine.Submit({.prompt = {prompt.begin(), prompt.end()},
                                              .sampling = {.temperature = 0},
                                              .max_tokens = num_generated,
                                              .ignore_end_of_text = true,
                                              .use_kv_cache = use_kv_cache},
                                             hooks);
  if (!id.ok()) {
    engine.SetStepObserver({});
    return id.error();
  }
  bool interrupted = false;
  while (!has_ended && engine.Step()) {
    if (!Interrupted()) continue;
    interrupted = true;
    engine.Abort(*id);
  }
  engine.SetStepObserver({});
  QUIRE_RETURN_IF_ERROR(result.status);
  if (interrupted) return MakeError(ErrorCode::kInterrupted, "interrupted");
  return costs;
}

struct Comparison {
  std::vector<TokenCost> with;
  std::vector<TokenCost> without;  // the same tokens
};

Result<Comparison> Compare(Engine& engine, std::span<const int32_t> prompt, int num_generated) {
  // Memory is touched before anything is timed.
  QUIRE_RETURN_IF_ERROR(Generate(engine, prompt.first(1), 2, false));
  engine.runner().cache().DropCached();
  Comparison runs;
  QUIRE_ASSIGN_OR_RETURN(runs.with, Generate(engine, prompt, num_generated, true));
  QUIRE_ASSIGN_OR_RETURN(runs.without, Generate(engine, prompt, num_generated, false));
  const bool same =
      std::ranges::equal(runs.with, runs.without, {}, &TokenCost::token, &TokenCost::token);
  QUIRE_CHECK(same, "the answer with the KV cache differs from the answer without");
  return runs;
}

std::string TextOf(const Engine& engine, int32_t token) {
  return Printable(engine.model().tokenizer().TokenBytes(token, /*with_control=*/true), 24);
}

void Print(const Comparison& runs, const Engine& engine) {
  fmt::print("{:>5}{:>8}  {:<16}|{:>9}{:>10}{:>11} |{:>9}{:>10}{:>11} |{:>8}\n", "", "", "", "with",
             "cache", "", "without", "", "", "");
  fmt::print("{:>5}{:>8}  {:<16}|{:>9}{:>10}{:>11} |{:>9}{:>10}{:>11} |{:>8}\n", "step", "token",
             "text", "computed", "ms", "ms so far", "computed", "ms", "ms so far", "times");
  double with_ms = 0;
  double without_ms = 0;
  int64_t with_tokens = 0;
  int64_t without_tokens = 0;
  for (size_t i = 0; i < runs.with.size(); ++i) {
    const TokenCost& with = runs.with[i];
    const TokenCost& without = runs.without[i];
    with_ms += with.forward_ms;
    without_ms += without.forward_ms;
    with_tokens += with.computed;
    without_tokens += without.computed;
    fmt::print("{:>5}{:>8}  {:<16}|{:>9}{:>10.2f}{:>11.2f} |{:>9}{:>10.2f}{:>11.2f} |{:>8.1f}\n", i,
               with.token, TextOf(engine, with.token), with.computed, with.forward_ms, with_ms,
               without.computed, without.forward_ms, without_ms,
               without.forward_ms / with.forward_ms);
  }
  fmt::print(
      "the same {} tokens: {} computed in {:.1f} ms with the cache, {} in {:.1f} ms without "
      "({:.1f} times)\n",
      runs.with.size(), with_tokens, with_ms, without_tokens, without_ms, without_ms / with_ms);
}

void PrintJson(const Comparison& runs, const Engine& engine, size_t num_prompt) {
  boost::json::array steps;
  double with_ms = 0;
  double without_ms = 0;
  const auto side = [](const TokenCost& cost, double& total_ms) -> boost::json::object {
    total_ms += cost.forward_ms;
    return {{"tokens_computed", cost.computed}, {"ms", cost.forward_ms}, {"total_ms", total_ms}};
  };
  for (size_t i = 0; i < runs.with.size(); ++i) {
    steps.push_back({{"token", runs.with[i].token},
                     {"text", TextOf(engine, runs.with[i].token)},
                     {"with_cache", side(runs.with[i], with_ms)},
                     {"without_cache", side(runs.without[i], without_ms)}});
  }
  const boost::json::object object = {{"prompt_tokens", num_prompt},
                                      {"same_output", true},
                                      {"with_cache_ms", with_ms},
                                      {"without_cache_ms", without_ms},
                                      {"steps", std::move(steps)}};
  fmt::print("{}\n", boost::json::serialize(object));
}

Status ExplainCache(const CacheFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  const std::vector<int32_t> prompt = engine->model().tokenizer().Encode(
      flags.prompt, {.add_special = true, .parse_special = true});
  if (prompt.empty()) return MakeError(ErrorCode::kInvalidArgument, "the prompt has no tokens");
  QUIRE_ASSIGN_OR_RETURN(const Comparison runs, Compare(*engine, prompt, flags.num_generated));
  if (flags.json) {
    PrintJson(runs, *engine, prompt.size());
  } else {
    Print(runs, *engine);
  }
  return {};
}

}  // namespace

void AddExplainCache(CLI::App& verb, int& exit_code) {
  CLI::App* cache = verb.add_subcommand(
      "cache", "The same generation with and without the KV cache: what each token costs");
  auto flags = std::make_shared<CacheFlags>();
  flags->prompt =
      "The KV cache keeps the keys and values of all tokens before, so that each of them is "
      "computed once. Without it, every";
  AddEngineFlags(*cache, flags->engine);
  cache->add_option("-p,--prompt", flags->prompt, "the text to continue, as it is")
      ->capture_default_str();
  cache->add_option("-n,--predict", flags->num_generated, "tokens to generate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  cache->add_flag("--json", flags->json, "for programs");
  cache->callback([flags, &exit_code] { exit_code = Report(ExplainCache(*flags)); });
}

}  // namespace quire
