#include "cli/serve_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "cli/model_path.h"
#include "formats/printable.h"
#include "plan/byte_size.h"
#include "server/routes/host_names.h"

namespace quire {
namespace {

// So many answers at once are more than a processor's arithmetic needs to be busy.
constexpr int kDefaultSequences = 64;
constexpr int kDefaultQueue = 1024;
// A body is held in memory, and so is what is read from it.
constexpr uint64_t kLargestBody = uint64_t{1} << 30;
// Longer is no time-out. In seconds: a week.
constexpr double kLongestTime = 7 * 24 * 3600.0;

std::chrono::milliseconds MillisecondsOf(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

void AddNetworkFlags(CLI::App& app, ServeFlags& flags) {
  const auto time = CLI::Range(0.0, kLongestTime);
  app.add_option("--host", flags.host, "address or name to listen on; 0.0.0.0 and :: are all")
      ->capture_default_str();
  app.add_option("--port", flags.port, "port to listen on; 0 = any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--cors,--allowed-origins", flags.cors,
                 "origins of web pages that may ask, separated by commas; * = any (default: none)")
      ->delimiter(',');
  app.add_option("--allowed-hosts", flags.allowed_hosts,
                 "without API keys: further names of this server, separated by commas, that the "
                 "page and /quire/ are answered for, such as quire or *.example.com; * = any "
                 "(default: addresses, localhost, --host and the machine's name)")
      ->delimiter(',');
  CLI::Option* certificate =
      app.add_option("--ssl-cert-file,--ssl-certfile", flags.certificate_file,
                     "certificate chain in PEM; with its key, the server speaks TLS");
  CLI::Option* key = app.add_option("--ssl-key-file,--ssl-keyfile", flags.key_file,
                                    "private key of the certificate in PEM");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--max-body", flags.max_body,
                 "largest body of a request, such as 16MiB; larger ones are refused with 413")
      ->capture_default_str();
  app.add_option("--header-timeout", flags.header_timeout,
                 "time for the head of a request to arrive, in seconds")
      ->check(CLI::Range(0.001, kLongestTime))
      ->capture_default_str();
  app.add_option("--idle-timeout", flags.idle_timeout,
                 "time that a connection may wait for its next request, in seconds")
      ->check(CLI::Range(0.001, kLongestTime))
      ->capture_default_str();
  app.add_option("--request-timeout", flags.request_timeout,
                 "time for a request from its arrival to the end of its answer, in seconds; what "
                 "takes longer is ended; 0 = no limit")
      ->check(time)
      ->capture_default_str();
  app.add_option("--drain-timeout", flags.drain_timeout,
                 "time for the requests under way to end after SIGTERM or Ctrl-C, in seconds")
      ->check(time)
      ->capture_default_str();
}

void AddKeyFlags(CLI::App& app, ServeFlags& flags) {
  CLI::Option* key =
      app.add_option("--api-key", flags.api_key,
                     "the key that every request must show; other users of this machine see it "
                     "here, so prefer the variable QUIRE_API_KEY or a file (default: none needed)");
  app.add_option("--api-key-file", flags.api_key_file,
                 "keys with their names, sharing groups and quotas, in JSON")
      ->excludes(key);
}

void AddLogFlags(CLI::App& app, ServeFlags& flags) {
  app.add_option("--log-format", flags.log_format,
                 "json, text, or auto: text on a terminal and JSON elsewhere")
      ->check(CLI::IsMember({"json", "text", "auto"}))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  app.add_flag("--log-text", flags.log_text, "write prompts and answers into the log");
}

LogLevel LogLevelOf(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return name == "off" ? LogLevel::kOff : LogLevel::kInfo;
}

Result<Tenants> TenantsOf(const ServeFlags& flags) {
  if (!flags.api_key_file.empty()) return Tenants::FromFile(flags.api_key_file);
  if (flags.api_key) return Tenants::FromKey(*flags.api_key);
  // One that is set and empty is a mistake that would open the server to everybody.
  const char* variable = std::getenv("QUIRE_API_KEY");
  return variable == nullptr ? Tenants() : Tenants::FromKey(variable);
}

}  // namespace

void AddServeFlags(CLI::App& app, ServeFlags& flags) {
  flags.engine.max_sequences = kDefaultSequences;
  flags.engine.max_queue = kDefaultQueue;
  AddEngineFlags(app, flags.engine);
  app.get_option("MODEL")->required(false)->description(
      "a GGUF file, a name that `quire models` lists, or hf:OWNER/REPO/FILE.gguf, which is "
      "pulled first where it is not here");
  AddBatchingFlags(app, flags.engine);
  AddTierFlags(app, flags.engine.tiers.emplace());
  AddSpeculationFlags(app, flags.engine, "ngram");
  app.add_option("--memory", flags.engine.memory,
                 "memory for all that the process takes, such as 4GiB: keys and values get what "
                 "weights and activations leave (default: half of what is free then)");
  app.add_option("--max-queue", flags.engine.max_queue,
                 "requests that may wait for their turn; further ones get 429; 0 = no limit")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("-a,--alias,--served-model-name", flags.names,
                 "names of the model, separated by commas: the first is what answers say "
                 "(default: MODEL's own)")
      ->delimiter(',');
  AddNetworkFlags(app, flags);
  AddKeyFlags(app, flags);
  AddLogFlags(app, flags);
  app.add_option("--text-threads", flags.text_threads,
                 "threads that read JSON, render templates and tokenize")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--config", flags.config,
                 "a file of lines such as `port = 8000`, with the names of these flags; what the "
                 "command line says comes first")
      ->configurable(false);
}

Result<ServerOptions> ServerOptionsOf(const ServeFlags& flags) {
  ServerOptions options;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t max_body, ParseByteSize(flags.max_body));
  if (max_body < 1 || max_body > kLargestBody) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-body {}: expected 1B to 1GiB",
                     flags.max_body);
  }
  if (std::ranges::find(flags.names, "") != flags.names.end()) {
    return MakeError(ErrorCode::kInvalidArgument, "--alias: a name of the model is empty");
  }
  for (const std::string& host : flags.allowed_hosts) {
    if (IsHostPattern(host)) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "--allowed-hosts '{}': expected a name without scheme and port, such as quire "
                     "or *.example.com, or *; addresses need not be listed",
                     Printable(host, 120));
  }
  options.http.host = flags.host;
  options.http.port = flags.port;
  options.http.certificate_file = flags.certificate_file;
  options.http.key_file = flags.key_file;
  options.http.max_body_bytes = max_body;
  options.http.header_timeout = MillisecondsOf(flags.header_timeout);
  options.http.idle_timeout = MillisecondsOf(flags.idle_timeout);
  options.router.cors_origins = flags.cors;
  options.router.allowed_hosts = flags.allowed_hosts;
  options.router.allowed_hosts.push_back(flags.host);
  options.limits.body.max_body_bytes = max_body;
  options.limits.max_queued = flags.engine.max_queue;
  options.limits.request_timeout_ms = flags.request_timeout * 1000;
  QUIRE_ASSIGN_OR_RETURN(options.tenants, TenantsOf(flags));
  options.log.level = LogLevelOf(flags.log_level);
  options.log.as_json = flags.log_format == "auto" ? ::isatty(STDERR_FILENO) == 0  //
                                                   : flags.log_format == "json";
  options.log.shows_text = flags.log_text;
  options.text_threads = flags.text_threads;
  return options;
}

ServedModel ServedModelOf(const ServeFlags& flags) {
  ServedModel model{.created = static_cast<int64_t>(std::time(nullptr))};
  model.aliases = flags.names;
  if (model.aliases.empty()) model.aliases.push_back(ModelName(flags.engine.model));
  model.id = model.aliases.front();
  model.aliases.erase(model.aliases.begin());
  return model;
}

}  // namespace quire
