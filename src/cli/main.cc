#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <string_view>

#include "cli/interrupt.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  quire::CatchInterrupts();
  // A reader that goes away is an error of the next write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Quire runs language models, and computes every prefix once.", "quire");
  app.set_version_flag("--version", "quire " QUIRE_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    const auto verbs = failed->get_subcommands();
    return fmt::format("quire: {}\nTry `quire{} --help`.\n", error.what(),
                       verbs.empty() ? "" : " " + verbs.front()->get_name());
  });
  int exit_code = 0;
  quire::AddRunVerb(app, exit_code);
  quire::AddBatchVerb(app, exit_code);
  quire::AddServeVerb(app, exit_code);
  quire::AddPullVerb(app, exit_code);
  quire::AddModelsVerb(app, exit_code);
  quire::AddInspectVerb(app, exit_code);
  quire::AddTokenizeVerb(app, exit_code);
  quire::AddExplainVerb(app, exit_code);
  quire::AddPerplexityVerb(app, exit_code);
  quire::AddPacksVerb(app, exit_code);
  quire::AddCacheVerb(app, exit_code);
  quire::AddBenchVerb(app, exit_code);
  quire::AddPlanVerb(app, exit_code);
  quire::AddTopVerb(app, exit_code);
  const auto is_verb = [&](std::string_view word) {
    const auto verbs = app.get_subcommands([](CLI::App*) { return true; });
    return std::ranges::any_of(verbs, [&](CLI::App* verb) { return verb->get_name() == word; });
  };
  if (argc > 1 && argv[1][0] != '-' && !is_verb(argv[1])) {
    fmt::print(stderr, "quire: no verb '{}'; `quire --help` lists them\n", argv[1]);
    return 2;
  }
  // llama.cpp's users know it so; CLI11 has short names of one letter.
  for (int i = 1; i < argc; ++i) {
    static char parallel[] = "--parallel";
    if (argv[i] == std::string_view("-np")) argv[i] = parallel;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has exit codes above 100; a wrong argument is 2 here, help and version are 0.
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
