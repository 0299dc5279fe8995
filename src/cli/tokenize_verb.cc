// `quire tokenize`: text to token ids and back.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "base/utf8.h"
#include "cli/model_path.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "formats/gguf.h"
#include "formats/printable.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  std::string file;
  bool no_special = false;
  bool parse_special = false;
  bool json = false;
};

Status Tokenize(const TokenizeFlags& flags, bool has_text) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(flags.model));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  QUIRE_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::FromGguf(file));
  std::string text = flags.text;
  if (!has_text) {
    QUIRE_ASSIGN_OR_RETURN(text, ReadTextFile(flags.file.empty() ? "-" : flags.file));
  }
  const std::vector<TokenId> ids = tokenizer->Encode(
      text, {.add_special = !flags.no_special, .parse_special = flags.parse_special});
  if (!flags.json) {
    for (const TokenId id : ids) {
      fmt::print("{:>8}  {}\n", id, Printable(tokenizer->TokenBytes(id, /*with_control=*/true)));
    }
    return {};
  }
  boost::json::array id_list;
  boost::json::array pieces;
  for (const TokenId id : ids) {
    id_list.emplace_back(id);
    pieces.emplace_back(RepairUtf8(tokenizer->TokenBytes(id, /*with_control=*/true)));
  }
  const boost::json::object result = {
      {"tokens", id_list}, {"pieces", pieces}, {"count", ids.size()}};
  fmt::print("{}\n", boost::json::serialize(result));
  return {};
}

}  // namespace

void AddTokenizeVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("tokenize", "Print the token ids of a text");
  auto flags = std::make_shared<TokenizeFlags>();
  verb->add_option("MODEL", flags->model, "a GGUF file, or a name that `quire models` lists")
      ->required();
  CLI::Option* text = verb->add_option("-p,--prompt", flags->text, "the text");
  verb->add_option("-f,--file", flags->file, "a file with the text; - or nothing: standard input")
      ->excludes(text);
  verb->add_flag("--no-special", flags->no_special, "do not add the file's BOS and EOS tokens");
  verb->add_flag("--parse-special", flags->parse_special,
                 "read the text of control tokens as those tokens");
  verb->add_flag("--json", flags->json, "for programs");
  verb->callback(
      [flags, text, &exit_code] { exit_code = Report(Tokenize(*flags, text->count() > 0)); });
}

}  // namespace quire
