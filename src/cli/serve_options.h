// The flags of `quire serve`, and what they make: the options of the server and of the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "server/server.h"

namespace CLI {
class App;
}

namespace quire {

// As given; sizes are text with a unit, times are in seconds, 0 = off.
struct ServeFlags {
  EngineFlags engine{};
  std::vector<std::string> names{};  // the first is the model's id, the others are aliases

  std::string host = "127.0.0.1";
  int port = 8080;
  std::optional<std::string> api_key{};
  std::string api_key_file{};
  std::vector<std::string> cors{};
  std::vector<std::string> allowed_hosts{};
  std::string certificate_file{};
  std::string key_file{};

  std::string max_body = "16MiB";
  double header_timeout = 10;
  double idle_timeout = 75;
  double request_timeout = 0;
  double drain_timeout = 30;
  int text_threads = 2;

  std::string log_format = "auto";
  std::string log_level = "info";
  bool log_text = false;
  std::string config{};
};

// Declares them all but MODEL's being required: a configuration file may name it. `flags` outlives
// the parse.
void AddServeFlags(CLI::App& app, ServeFlags& flags);

// What the parsed flags, the configuration file and QUIRE_API_KEY ask of the server. Reads the key
// file.
Result<ServerOptions> ServerOptionsOf(const ServeFlags& flags);

// How answers call the model that the flags name.
ServedModel ServedModelOf(const ServeFlags& flags);

}  // namespace quire
