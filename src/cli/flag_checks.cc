#include "cli/flag_checks.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace quire {

void CheckNumbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_type_name().starts_with("FLOAT")) continue;
    option->check([](const std::string& text) -> std::string {
      if (!std::isnan(std::strtod(text.c_str(), nullptr))) return {};
      return "expected a number, got " + text;
    });
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) CheckNumbers(*verb);
}

void RefuseEmpty(CLI::Option& option) {
  option.check([](const std::string& text) -> std::string {
    return text.empty() ? "expected a name, got nothing" : "";
  });
}

}  // namespace quire
