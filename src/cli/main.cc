#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "cli/flag_checks.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"

namespace {

// nullptr = there is none.
CLI::App* FindVerb(CLI::App& app, std::string_view word) {
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    if (verb->get_name() == word) return verb;
  }
  return nullptr;
}

// Says what CLI11 would put as a missing subcommand.
bool KnowsVerb(CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return true;
  CLI::App* verb = FindVerb(app, argv[1]);
  if (verb == nullptr) {
    fmt::print(stderr, "quire: no verb '{}'; `quire --help` lists them\n", argv[1]);
    return false;
  }
  if (argc < 3 || argv[2][0] == '-' || verb->get_require_subcommand_min() == 0) return true;
  if (FindVerb(*verb, argv[2]) != nullptr) return true;
  fmt::print(stderr, "quire: no subject '{}' of `quire {}`; `quire {} --help` lists them\n",
             argv[2], argv[1], argv[1]);
  return false;
}

int RunProgram(int argc, char** argv) {
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
  quire::CheckNumbers(app);
  if (!KnowsVerb(app, argc, argv)) return 2;
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

// What standard output did not take is an error, unless its reader has what it wants and left.
int ReportOutput(int error) {
  if (error == 0 || error == EPIPE) return 0;
  return quire::Report(quire::OutputError(error));
}

// Printing throws where a stream cannot take more.
int RunAndReport(int argc, char** argv) {
  try {
    const int exit_code = RunProgram(argc, argv);
    return exit_code != 0 ? exit_code : ReportOutput(quire::FlushStdout());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) {
      return quire::Report(quire::MakeError(quire::ErrorCode::kIo, "{}", error.what()));
    }
    return ReportOutput(error.code().value());
  }
}

}  // namespace

int main(int argc, char** argv) {
  quire::CatchInterrupts();
  // A reader that goes away is an error of the next write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  return RunAndReport(argc, argv);
}
