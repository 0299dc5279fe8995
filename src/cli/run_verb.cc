// `quire run`: one answer from -p, a file or standard input; a chat where a person sits there.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/answer_report.h"
#include "cli/chat_loop.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/sampling_flags.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "engine/chat.h"

namespace quire {
namespace {

struct RunFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string prompt;
  std::string file;
  std::string system;
  bool raw = false;
  bool json = false;
  bool has_prompt = false;
};

// The ids of the one prompt: rendered by the chat template, or as it is.
Result<std::vector<int32_t>> PromptIds(const RunFlags& flags, const Engine& engine,
                                       const std::string& text) {
  const LoadedModel& model = engine.model();
  bool raw = flags.raw;
  if (!raw) {
    const auto chat_template = model.chat_template();
    if (!chat_template.ok() && chat_template.error().code == ErrorCode::kNotFound) {
      fmt::print(stderr, "quire: {}; continuing the text as it is (--raw)\n",
                 chat_template.error().message);
      raw = true;
    }
  }
  if (raw) return model.tokenizer().Encode(text, {.add_special = true, .parse_special = true});
  QUIRE_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Create(model));
  conversation.Reset(flags.system);
  conversation.Add({"user", text});
  return conversation.Prompt();
}

Status AnswerOnce(const RunFlags& flags, const GenerationOptions& options, Engine& engine) {
  std::string text = flags.prompt;
  if (!flags.has_prompt) {
    QUIRE_ASSIGN_OR_RETURN(text, ReadTextFile(flags.file.empty() ? "-" : flags.file));
    // What a shell's echo or an editor adds is not part of a question.
    if (!flags.raw && !text.empty() && text.back() == '\n') text.pop_back();
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, PromptIds(flags, engine, text));
  Sequence sequence = engine.NewSequence();
  sequence.SetTokens(ids);
  bool write_failed = false;
  GenerationHooks hooks{.interrupted = [&] { return Interrupted() || write_failed; }};
  if (!flags.json) {
    hooks.on_text = [&](std::string_view piece) {
      write_failed |= std::fwrite(piece.data(), 1, piece.size(), stdout) != piece.size();
      write_failed |= std::fflush(stdout) != 0;
    };
  }
  QUIRE_ASSIGN_OR_RETURN(const GenerationResult result, Generate(engine, sequence, options, hooks));
  if (write_failed) return MakeError(ErrorCode::kIo, "cannot write to standard output");
  fmt::print("{}\n", flags.json ? AnswerAsJson(result, engine, sequence) : "");
  std::fflush(stdout);
  if (!flags.json) PrintStats(result, engine, sequence);
  if (result.finish_reason == FinishReason::kInterrupted) {
    return MakeError(ErrorCode::kInterrupted, "interrupted");
  }
  return {};
}

Status Run(RunFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const GenerationOptions options, OptionsOf(flags.sampling));
  const bool chat = !flags.has_prompt && flags.file.empty() && !flags.raw && !flags.json &&
                    ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  // Wrong parameters are told before a prompt is read.
  QUIRE_RETURN_IF_ERROR(options.sampling.Validate(engine->vocab_size()));
  if (chat) return RunChat(*engine, options, flags.system);
  return AnswerOnce(flags, options, *engine);
}

}  // namespace

void AddRunVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "run", "Chat with a model on a terminal, or answer one prompt (-p, -f or standard input)");
  auto flags = std::make_shared<RunFlags>();
  AddEngineFlags(*verb, flags->engine);
  CLI::Option* prompt =
      verb->add_option("-p,--prompt", flags->prompt,
                       "the message to answer; standard output holds the answer alone");
  verb->add_option("-f,--file", flags->file, "a file with the message; - is standard input")
      ->excludes(prompt);
  verb->add_option("--system", flags->system, "system message (default: the template's own)");
  verb->add_flag("--raw", flags->raw, "continue the text as it is, without the chat template");
  verb->add_flag("--json", flags->json, "one JSON object with text, tokens, usage and timings");
  AddSamplingFlags(*verb, flags->sampling);
  verb->callback([flags, prompt, &exit_code] {
    flags->has_prompt = prompt->count() > 0;
    exit_code = Report(Run(*flags));
  });
}

}  // namespace quire
