// `quire explain`: what inference does, shown on a real run.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>
#include <set>

#include "base/exact_math.h"
#include "cli/engine_flags.h"
#include "cli/explain.h"
#include "cli/html_file.h"
#include "cli/interrupt.h"
#include "cli/sampling_flags.h"
#include "cli/verbs.h"
#include "engine/generation.h"
#include "formats/printable.h"

namespace quire {
namespace {

constexpr int kCandidates = 3;
constexpr int kDefaultTokens = 8;

struct ExplainFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string prompt;
  bool json = false;
};

// One row of the table: a token fed, and for the last of a step what its logits say.
struct Row {
  std::string phase;  // "prefill" or "decode"
  int step = 0;
  int32_t token = 0;
  std::string text;
  int position = 0;
  int block = 0;                  // entry of the block table
  int slot = 0;                   // within the block
  int entries_read = 0;           // of a layer without a window
  std::vector<int> window_reads;  // of each kind of windowed layer, in the order of `windows`
  std::vector<TokenLogProb> candidates;
  double step_ms = 0;
};

// Collects the rows of a run.
class StepTable {
 public:
  StepTable(const Engine& engine, int prompt_tokens)
      : engine_(engine), prompt_tokens_(prompt_tokens) {
    std::set<int> windows;
    for (const LayerConfig& layer : engine.model().config().layers) {
      if (layer.window > 0) windows.insert(layer.window);
    }
    windows_.assign(windows.begin(), windows.end());
  }

  void Add(const StepReport& report) {
    const Tokenizer& tokenizer = engine_.model().tokenizer();
    for (const StepItem& item : report.items) {
      for (int i = 0; i < item.num_tokens; ++i) {
        const int position = item.first_position + i;
        Row row{.phase = position < prompt_tokens_ ? "prefill" : "decode",
                .step = num_steps_,
                .token = item.tokens[i],
                .text = {},
                .position = position,
                .block = position / kBlockSlots,
                .slot = position % kBlockSlots,
                .entries_read = position + 1,
                .window_reads = {},
                .candidates = {},
                .step_ms = i + 1 == item.num_tokens ? report.duration_ms : 0};
        row.text = Printable(tokenizer.TokenBytes(row.token, /*with_control=*/true), 24);
        for (const int window : windows_) {
          row.window_reads.push_back(std::min(window, position + 1));
        }
        for (const LogitsRow& logits : report.logits) {
          if (logits.sequence != item.sequence || logits.position != position) continue;
          if (auto best = ComputeLogProbs(logits.logits, kCandidates, 0); best.ok()) {
            row.candidates.assign(
                best->top.begin(),
                best->top.begin() + std::min<size_t>(kCandidates, best->top.size()));
          }
        }
        rows_.push_back(std::move(row));
      }
    }
    ++num_steps_;
  }

  void Print(int sampled) const {
    std::string window_head;
    for (const int window : windows_)
      window_head += fmt::format("{:>11}", fmt::format("(of {})", window));
    fmt::print("{:<8}{:>5}{:>8}  {:<16}{:>9}{:>7}{:>6}{:>7}{}{:>10}  {}\n", "phase", "step",
               "token", "text", "position", "block", "slot", "reads", window_head, "ms",
               "candidates for the next token");
    for (const Row& row : rows_) {
      std::string reads;
      for (const int read : row.window_reads) reads += fmt::format("{:>11}", read);
      fmt::print("{:<8}{:>5}{:>8}  {:<16}{:>9}{:>7}{:>6}{:>7}{}{:>10}  {}\n", row.phase, row.step,
                 row.token, row.text, row.position, row.block, row.slot, row.entries_read, reads,
                 row.step_ms > 0 ? fmt::format("{:.2f}", row.step_ms) : "", CandidateText(row));
    }
    fmt::print(
        "{} prompt tokens + {} sampled - 1 = {} entries in the cache: the last sampled token has "
        "none until it is fed\n",
        prompt_tokens_, sampled, prompt_tokens_ + sampled - 1);
  }

  boost::json::object AsJson(int sampled) const {
    boost::json::array rows;
    for (const Row& row : rows_) {
      boost::json::array candidates;
      for (const TokenLogProb& candidate : row.candidates) {
        candidates.push_back({{"token", candidate.token},
                              {"text", TextOf(candidate.token)},
                              {"probability", exact::Exp(candidate.log_prob)}});
      }
      boost::json::array reads;
      for (size_t i = 0; i < windows_.size(); ++i) {
        reads.push_back({{"window", windows_[i]}, {"entries_read", row.window_reads[i]}});
      }
      rows.push_back({{"phase", row.phase},
                      {"step", row.step},
                      {"token", row.token},
                      {"text", row.text},
                      {"position", row.position},
                      {"block", row.block},
                      {"slot", row.slot},
                      {"entries_read", row.entries_read},
                      {"windowed_layers", std::move(reads)},
                      {"candidates", std::move(candidates)},
                      {"ms", row.step_ms}});
    }
    return {{"prompt_tokens", prompt_tokens_},
            {"sampled_tokens", sampled},
            {"entries", prompt_tokens_ + sampled - 1},
            {"steps", std::move(rows)}};
  }

 private:
  std::string TextOf(int32_t token) const {
    return Printable(engine_.model().tokenizer().TokenBytes(token, /*with_control=*/true), 24);
  }

  std::string CandidateText(const Row& row) const {
    std::string text;
    for (const TokenLogProb& candidate : row.candidates) {
      text += fmt::format("{}{} {:.3f}", text.empty() ? "" : "  ", TextOf(candidate.token),
                          exact::Exp(candidate.log_prob));
    }
    return text;
  }

  const Engine& engine_;
  int prompt_tokens_;
  int num_steps_ = 0;
  std::vector<int> windows_;  // of the model's windowed layers, ascending
  std::vector<Row> rows_;
};

Status ExplainSteps(const ExplainFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(Request request, RequestOf(flags.sampling));
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  request.prompt = engine->model().tokenizer().Encode(flags.prompt,
                                                      {.add_special = true, .parse_special = true});
  StepTable table(*engine, static_cast<int>(request.prompt.size()));
  engine->SetStepObserver([&table](const StepReport& report) { table.Add(report); });
  QUIRE_ASSIGN_OR_RETURN(
      const RequestResult result,
      Generate(*engine, std::move(request), {.on_text = {}, .interrupted = Interrupted}));
  const int sampled = result.completion_tokens();
  const std::string& text = result.choices[0].text;
  if (flags.json) {
    boost::json::object object = table.AsJson(sampled);
    object["text"] = text;
    fmt::print("{}\n", boost::json::serialize(object));
  } else {
    table.Print(sampled);
    fmt::print("answer: {}\n", Printable(text, 4000));
  }
  if (result.choices[0].finish_reason == FinishReason::kAborted) {
    return MakeError(ErrorCode::kInterrupted, "interrupted");
  }
  return {};
}

// A page is refused before the work that would fill it.
void CheckPages(CLI::App& verb) {
  for (CLI::App* subject : verb.get_subcommands([](CLI::App*) { return true; })) {
    CLI::Option* page = subject->get_option_no_throw("--html");
    if (page == nullptr) continue;
    page->check([](const std::string& path) {
      const Status status = CheckHtmlFile(path);
      return status.ok() ? std::string() : status.error().message;
    });
  }
}

}  // namespace

void AddExplainVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("explain", "Show what inference does, on a real run");
  verb->require_subcommand(1);
  CLI::App* steps = verb->add_subcommand(
      "steps",
      "The step table: each token fed, its slot in the KV cache, the entries it reads, and the "
      "candidates after it");
  auto flags = std::make_shared<ExplainFlags>();
  flags->sampling.request.max_tokens = kDefaultTokens;
  flags->sampling.request.sampling.temperature = 0;
  AddEngineFlags(*steps, flags->engine);
  steps->add_option("-p,--prompt", flags->prompt, "the text to continue, as it is")->required();
  AddSamplingFlags(*steps, flags->sampling);
  steps->add_flag("--json", flags->json, "for programs");
  AddExplainShapes(*verb, exit_code);
  AddExplainPhases(*verb, exit_code);
  AddExplainRoofline(*verb, exit_code);
  AddExplainGrowth(*verb, exit_code);
  AddExplainCache(*verb, exit_code);
  AddExplainRequest(*verb, exit_code);
  AddExplainTrace(*verb, exit_code);
  CheckPages(*verb);
  steps->callback([flags, &exit_code] { exit_code = Report(ExplainSteps(*flags)); });
}

}  // namespace quire
