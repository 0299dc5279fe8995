// `quire cache ls`: the prefixes that are stored, last used first.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <memory>

#include "cli/cache/block_reader.h"
#include "cli/cache/cache_verbs.h"
#include "cli/cache/prefix_chains.h"
#include "cli/cache/store_flags.h"
#include "cli/verbs.h"
#include "formats/printable.h"

namespace quire {
namespace {

constexpr size_t kShownCharacters = 40;

struct ListFlags {
  StoreFlags store;
  int64_t limit = 50;
};

struct Listing {
  PrefixChain chain;
  BlockReader::Ends text;
  std::string no_text;  // why there is none
};

std::string TextOf(const Listing& listing) {
  if (!listing.no_text.empty()) return "(" + listing.no_text + ")";
  std::string text = listing.chain.is_whole() ? "" : "... ";
  text += Printable(listing.text.begin, SIZE_MAX);
  if (!listing.text.end.empty()) text += " ... " + Printable(listing.text.end, SIZE_MAX);
  return text;
}

void PrintText(const std::vector<Listing>& listings, size_t num_left_out) {
  if (listings.empty()) fmt::print("no prefix is stored\n");
  if (!listings.empty()) {
    fmt::print("{:<16}  {:>7}  {:>10}  {:<19}  {:>5}  {}\n", "ID", "TOKENS", "SIZE",
               "LAST USE (UTC)", "HITS", "TEXT");
  }
  for (const Listing& listing : listings) {
    const CataloguedRecord& last = listing.chain.last();
    fmt::print("{:<16}  {:>7}  {:>10}  {:<19}  {:>5}  {}\n", ShortHex(last.name.digest),
               listing.chain.num_tokens(), ShortBytes(listing.chain.bytes()),
               FormatTime(last.last_use_s), last.hits, TextOf(listing));
  }
  if (num_left_out > 0) fmt::print("... and {} more (--limit 0 shows all)\n", num_left_out);
}

void PrintJson(const std::vector<Listing>& listings, size_t num_left_out) {
  boost::json::array list;
  for (const Listing& listing : listings) {
    const CataloguedRecord& last = listing.chain.last();
    boost::json::object entry = {{"id", ToHex(last.name.digest)},
                                 {"fingerprint", ToHex(last.fingerprint)},
                                 {"tokens", listing.chain.num_tokens()},
                                 {"bytes", listing.chain.bytes()},
                                 {"last_use", last.last_use_s},
                                 {"hits", last.hits},
                                 {"is_whole", listing.chain.is_whole()},
                                 {"text_begin", nullptr},
                                 {"text_end", nullptr}};
    if (listing.no_text.empty()) {
      entry["text_begin"] = listing.text.begin;
      entry["text_end"] = listing.text.end;
    } else {
      entry["no_text"] = listing.no_text;
    }
    list.push_back(std::move(entry));
  }
  const boost::json::object result = {{"prefixes", std::move(list)}, {"left_out", num_left_out}};
  fmt::print("{}\n", boost::json::serialize(result));
}

Status List(const ListFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto keys, KeysOf(flags.store.seal));
  QUIRE_ASSIGN_OR_RETURN(const auto store, OpenStore(flags.store, CatalogueMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const StoredModelFilter filter, FilterOf(flags.store.model));
  std::vector<CataloguedRecord> records = store->records();
  LearnParents(*store, keys, records);
  QUIRE_ASSIGN_OR_RETURN(std::vector<PrefixChain> chains,
                         MatchingChains(*store, records, filter, flags.store.model));
  const size_t num_shown =
      flags.limit == 0 ? chains.size() : std::min(chains.size(), static_cast<size_t>(flags.limit));
  BlockReader reader(*store, records, keys);
  std::vector<Listing> listings;
  for (size_t i = 0; i < num_shown; ++i) {
    Listing listing{.chain = std::move(chains[i]), .text = {}, .no_text = {}};
    if (filter.tokenizer == nullptr) {
      listing.no_text = "--model FILE shows the text";
    } else if (auto text = reader.TextEnds(listing.chain, *filter.tokenizer, kShownCharacters);
               text.ok()) {
      listing.text = std::move(*text);
    } else {
      listing.no_text = text.error().code == ErrorCode::kInvalidArgument
                            ? "encrypted; --kv-key-file FILE shows the text"
                            : text.error().message;
    }
    listings.push_back(std::move(listing));
  }
  if (flags.store.json) {
    PrintJson(listings, chains.size() - num_shown);
  } else {
    PrintText(listings, chains.size() - num_shown);
  }
  return {};
}

}  // namespace

void AddCacheListVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb = cache.add_subcommand(
      "ls", "The longest prefixes, last used first; every beginning of one is there, too");
  auto flags = std::make_shared<ListFlags>();
  AddDirectoryFlags(*verb, flags->store);
  AddDirectoryArgument(*verb, flags->store);
  AddModelFlag(*verb, flags->store);
  AddSealFlags(*verb, flags->store.seal);
  verb->add_option("--limit", flags->limit, "prefixes to show at most; 0 = all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  verb->callback([flags, &exit_code] { exit_code = Report(List(*flags)); });
}

}  // namespace quire
