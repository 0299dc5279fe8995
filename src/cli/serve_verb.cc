// `quire serve`: a model behind the OpenAI API.
//
// Listens before it loads: a port that is taken is told at once, and who asks early gets 503.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "cli/bring_model.h"
#include "cli/config_file.h"
#include "cli/download/remote_model.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/serve_options.h"
#include "cli/service_notice.h"
#include "cli/trace_flags.h"
#include "cli/verbs.h"
#include "plan/byte_size.h"
#include "trace/trace_tee.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool IsLoopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

std::string DescribeLimits(const Engine& engine) {
  const auto blocks = static_cast<uint64_t>(engine.cache().usage().total_blocks);
  return fmt::format("context {}, KV pool {}", engine.context_length(),
                     FormatUnits(blocks * engine.cache().layout().block_bytes));
}

// What is settled before anything is listened on. A model that is elsewhere is brought later.
Status Prepare(CLI::App& verb, ServeFlags& flags) {
  if (!flags.config.empty()) QUIRE_RETURN_IF_ERROR(ApplyConfigFile(verb, flags.config));
  // Wrong limits and keys are told before a model is read.
  QUIRE_ASSIGN_OR_RETURN([[maybe_unused]] const EngineOptions options,
                         EngineOptionsOf(flags.engine));
  const std::string& model = flags.engine.model;
  if (model.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "MODEL is missing: a GGUF file, or a name that `quire models` lists");
  }
  if (IsRemoteModel(model)) return {};
  QUIRE_ASSIGN_OR_RETURN([[maybe_unused]] const auto file, ResolveModel(model));
  return {};
}

Result<std::filesystem::path> ResolveOrPull(const std::string& model) {
  return IsRemoteModel(model) ? BringModel(model, {}) : ResolveModel(model);
}

// Whom the engine tells: the server's page, and a file where one is asked for. Outlives the server.
struct Listeners {
  std::unique_ptr<TraceFile> file{};
  TraceTee all{};
};

Status Serve(ServeFlags& flags, const TraceFlags& trace, Listeners& listeners) {
  const Clock::time_point start = Clock::now();
  QUIRE_ASSIGN_OR_RETURN(ServerOptions options, ServerOptionsOf(flags));
  // Outlives the server, whose end writes what only memory holds.
  ProgressLine writing;
  const bool is_open = !options.tenants.asks_for_key() && !IsLoopback(flags.host);
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Listen(std::move(options)));
  if (is_open) {
    server->log().Write(LogLevel::kWarning, "no_api_key",
                        {{"host", flags.host},
                         {"advice", std::string("whoever reaches this address may use the model; "
                                                "--api-key-file or QUIRE_API_KEY asks for keys")}});
  }
  const Result<std::filesystem::path> file = ResolveOrPull(flags.engine.model);
  if (Interrupted()) return {};
  if (!file.ok()) return file.error();
  ServedModel model = ServedModelOf(flags);
  model.file = file->string();
  QUIRE_ASSIGN_OR_RETURN(listeners.file, OpenTrace(trace));
  listeners.all.AddSink(listeners.file.get());
  listeners.all.AddSink(&server->live());
  Result<std::unique_ptr<Engine>> engine = MakeEngine(flags.engine, &listeners.all);
  if (Interrupted()) return {};
  if (!engine.ok()) return engine.error();
  const std::string limits = DescribeLimits(**engine);
  const bool has_tiers = !(*engine)->TierStatuses().empty();
  if (const auto chat = (*engine)->model().chat_template(); !chat.ok()) {
    server->log().Write(LogLevel::kWarning, "no_chat_template",
                        {{"reason", chat.error().message},
                         {"advice", std::string("chats are refused; completions are answered")}});
  }
  server->Serve(std::move(*engine), model);
  fmt::print("quire: serving {} at {} ({}, ready in {:.2f} s)\n", model.id, server->url(), limits,
             SecondsSince(start));
  std::fflush(stdout);
  NotifyServiceManager("READY=1");
  WaitForInterrupt();
  NotifyServiceManager("STOPPING=1");
  server->Drain(std::chrono::milliseconds(static_cast<int64_t>(flags.drain_timeout * 1000)));
  if (has_tiers) writing.Show("writing blocks that only memory holds; a second signal leaves them");
  return {};
}

Status RunServe(CLI::App& verb, ServeFlags& flags, const TraceFlags& trace) {
  CatchTermination();
  QUIRE_RETURN_IF_ERROR(Prepare(verb, flags));
  Listeners listeners;
  Status status = Serve(flags, trace, listeners);
  return EndTrace(listeners.file.get(), std::move(status));
}

}  // namespace

void AddServeVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("serve", "Serve a model over HTTP, as the OpenAI API has it");
  auto flags = std::make_shared<ServeFlags>();
  auto trace = std::make_shared<TraceFlags>();
  AddServeFlags(*verb, *flags);
  AddTraceFlags(*verb, *trace);
  verb->callback(
      [flags, trace, verb, &exit_code] { exit_code = Report(RunServe(*verb, *flags, *trace)); });
}

}  // namespace quire
