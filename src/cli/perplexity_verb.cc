// `quire perplexity`: how well a model predicts a text.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "engine/perplexity.h"

namespace quire {
namespace {

struct PerplexityFlags {
  EngineFlags engine;
  PerplexityOptions options;
  std::string file;
  std::string save_logits;
  std::string compare_logits;
  bool json = false;
};

void Print(const PerplexityResult& result, const PerplexityFlags& flags) {
  const bool compared = !flags.compare_logits.empty();
  if (flags.json) {
    boost::json::object object = {{"perplexity", result.perplexity},
                                  {"mean_loss", result.mean_loss},
                                  {"mean_loss_standard_error", result.standard_error},
                                  {"windows", result.num_windows},
                                  {"tokens_scored", result.num_scored}};
    if (compared) {
      object["mean_kl_divergence"] = result.mean_divergence;
      object["mean_kl_divergence_standard_error"] = result.divergence_error;
      object["largest_kl_divergence"] = result.largest_divergence;
      object["same_best_token"] = result.same_best_token;
    }
    fmt::print("{}\n", boost::json::serialize(object));
    return;
  }
  fmt::print("perplexity {:.4f} +- {:.4f} over {} tokens in {} windows of {}\n", result.perplexity,
             result.perplexity * result.standard_error, result.num_scored, result.num_windows,
             flags.options.window);
  if (compared) {
    fmt::print("KL divergence {:.6f} +- {:.6f}, at most {:.6f}; the same best token for {:.2f} %\n",
               result.mean_divergence, result.divergence_error, result.largest_divergence,
               100 * result.same_best_token);
  }
}

Status Measure(PerplexityFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.file));
  if (!flags.save_logits.empty()) flags.options.save_logits = flags.save_logits;
  if (!flags.compare_logits.empty()) flags.options.compare_logits = flags.compare_logits;
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  const std::vector<int32_t> tokens = engine->model().tokenizer().Encode(text, {});
  ProgressLine line;
  QUIRE_ASSIGN_OR_RETURN(
      const PerplexityResult result,
      MeasurePerplexity(engine->runner(), tokens, flags.options, [&](int done, int all) {
        line.Update(fmt::format("window {} of {}", done, all), done, all);
        return !Interrupted();
      }));
  line.Clear();
  Print(result, flags);
  return {};
}

}  // namespace

void AddPerplexityVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  auto flags = std::make_shared<PerplexityFlags>();
  AddEngineFlags(*verb, flags->engine);
  verb->add_option("FILE", flags->file, "the text; - is standard input")->required();
  verb->add_option("--window", flags->options.window,
                   "tokens a window, of which the second half is scored")
      ->capture_default_str();
  verb->add_option("--windows", flags->options.max_windows, "windows at most; 0 = all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--save-logits", flags->save_logits, "write the scored logits to this file");
  verb->add_option(
      "--kl-divergence", flags->compare_logits,
      "a file of logits saved from the same text: also measure the divergence from it");
  verb->add_flag("--json", flags->json, "for programs");
  verb->callback([flags, &exit_code] { exit_code = Report(Measure(*flags)); });
}

}  // namespace quire
