// `quire run`: one answer from -p, a file or standard input; a chat where a person sits there.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/answer_report.h"
#include "cli/chat_loop.h"
#include "cli/engine_flags.h"
#include "cli/flush_tiers.h"
#include "cli/interrupt.h"
#include "cli/sampling_flags.h"
#include "cli/text_input.h"
#include "cli/trace_flags.h"
#include "cli/verbs.h"
#include "engine/chat.h"
#include "engine/generation.h"

namespace quire {
namespace {

struct RunFlags {
  EngineFlags engine;
  TraceFlags trace;
  SamplingFlags sampling;
  std::string prompt;
  std::string file;
  std::string system;
  bool raw = false;
  bool json = false;
  bool has_prompt = false;
};

// The one prompt: rendered by the chat template, or as it is.
Result<std::vector<PromptPiece>> PromptOf(const RunFlags& flags, const Engine& engine,
                                          const std::string& text) {
  bool raw = flags.raw;
  if (!raw) {
    const auto chat_template = engine.model().chat_template();
    if (!chat_template.ok() && chat_template.error().code == ErrorCode::kNotFound) {
      fmt::print(stderr, "quire: {}; continuing the text as it is (--raw)\n",
                 chat_template.error().message);
      raw = true;
    }
  }
  if (raw) return std::vector<PromptPiece>{{.text = text, .from_template = true}};
  std::vector<Message> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", text});
  return RenderChat(engine.model(), messages);
}

Status AnswerOnce(const RunFlags& flags, Request request, Engine& engine) {
  std::string text = flags.prompt;
  if (!flags.has_prompt) {
    QUIRE_ASSIGN_OR_RETURN(text, ReadTextFile(flags.file.empty() ? "-" : flags.file));
    // What a shell's echo or an editor adds is not part of a question.
    if (!flags.raw && !text.empty() && text.back() == '\n') text.pop_back();
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PromptPiece> pieces, PromptOf(flags, engine, text));
  request.prompt = engine.EncodePrompt(pieces, request.cache_salt);
  bool write_failed = false;
  GenerationHooks hooks{.interrupted = [&] { return Interrupted() || write_failed; }};
  if (!flags.json) {
    hooks.on_text = [&](std::string_view piece) {
      write_failed |= std::fwrite(piece.data(), 1, piece.size(), stdout) != piece.size();
      write_failed |= std::fflush(stdout) != 0;
    };
  }
  QUIRE_ASSIGN_OR_RETURN(const RequestResult result, Generate(engine, std::move(request), hooks));
  if (write_failed) return MakeError(ErrorCode::kIo, "cannot write to standard output");
  fmt::print("{}\n", flags.json ? AnswerAsJson(result, engine) : "");
  QUIRE_RETURN_IF_ERROR(FlushOutput());
  if (!flags.json) PrintStats(result, engine);
  if (result.choices[0].finish_reason == FinishReason::kAborted) {
    return MakeError(ErrorCode::kInterrupted, "interrupted");
  }
  return {};
}

Status Run(RunFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const Request request, RequestOf(flags.sampling));
  const bool chat = !flags.has_prompt && flags.file.empty() && !flags.raw && !flags.json &&
                    ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  QUIRE_ASSIGN_OR_RETURN(const auto trace, OpenTrace(flags.trace));
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine, trace.get()));
  // Wrong parameters are told before a prompt is read.
  QUIRE_RETURN_IF_ERROR(request.sampling.Validate(engine->vocab_size()));
  const Status status = chat ? RunChat(*engine, request, flags.system)  //
                             : AnswerOnce(flags, request, *engine);
  FlushTiers(*engine);
  return EndTrace(trace.get(), status);
}

}  // namespace

void AddRunVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "run", "Chat with a model on a terminal, or answer one prompt (-p, -f or standard input)");
  auto flags = std::make_shared<RunFlags>();
  AddEngineFlags(*verb, flags->engine);
  AddTierFlags(*verb, flags->engine.tiers.emplace());
  AddSpeculationFlags(*verb, flags->engine, "ngram");
  CLI::Option* prompt =
      verb->add_option("-p,--prompt", flags->prompt,
                       "the message to answer; standard output holds the answer alone");
  verb->add_option("-f,--file", flags->file, "a file with the message; - is standard input")
      ->excludes(prompt);
  verb->add_option("--system", flags->system, "system message (default: the template's own)");
  verb->add_flag("--raw", flags->raw, "continue the text as it is, without the chat template");
  verb->add_flag("--json", flags->json, "one JSON object with text, tokens, usage and timings");
  AddSamplingFlags(*verb, flags->sampling);
  AddTraceFlags(*verb, flags->trace);
  verb->callback([flags, prompt, &exit_code] {
    flags->has_prompt = prompt->count() > 0;
    exit_code = Report(Run(*flags));
  });
}

}  // namespace quire
