// `quire cache export` and `import`: prefixes in one file, to another machine.
#include <fmt/core.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "cli/cache/block_reader.h"
#include "cli/cache/cache_verbs.h"
#include "cli/cache/record_sealer.h"
#include "cli/cache/store_flags.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "kv/tiers/disk/disk_directory.h"
#include "kv/tiers/record_file.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

struct ExportFlags {
  StoreFlags store;
  std::string file;
  std::string prefix;
  bool has_prefix = false;
  bool all = false;
  bool encrypts = false;
};

struct ImportFlags {
  StoreFlags store;
  std::string file;
  std::string max = kDefaultDiskBytes;
  bool encrypts = false;
};

using Records = std::vector<CataloguedRecord>;

Result<Records> RecordsWithPrefix(DiskCatalogue& store, const Records& records,
                                  const StoredModelFilter& filter, const ExportFlags& flags,
                                  const std::shared_ptr<const KeyRing>& keys) {
  if (filter.tokenizer == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--prefix needs --model with a GGUF file or a model's name: texts are read "
                     "with its tokenizer");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PrefixChain> chains,
                         MatchingChains(store, records, filter, flags.store.model));
  BlockReader reader(store, records, keys);
  std::map<std::pair<Digest, RecordName>, CataloguedRecord> chosen;
  for (const PrefixChain& chain : chains) {
    if (!chain.is_whole()) continue;
    const auto begins = reader.BeginsWith(chain, *filter.tokenizer, flags.prefix);
    if (!begins.ok() && begins.error().code == ErrorCode::kInvalidArgument) return begins.error();
    if (!begins.ok() || !*begins) continue;
    QUIRE_ASSIGN_OR_RETURN(const Records all_groups, reader.InAllGroups(chain));
    for (const CataloguedRecord& record : all_groups) {
      chosen.emplace(std::pair(record.fingerprint, record.name), record);
    }
  }
  if (chosen.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "no stored prefix begins with this text; `quire cache ls --model FILE` shows "
                     "how they begin");
  }
  Records list;
  for (auto& [name, record] : chosen) list.push_back(record);
  return list;
}

Result<Records> RecordsToExport(DiskCatalogue& store, const ExportFlags& flags,
                                const std::shared_ptr<const KeyRing>& keys) {
  QUIRE_ASSIGN_OR_RETURN(const StoredModelFilter filter, FilterOf(flags.store.model));
  Records records = store.records();
  LearnParents(store, keys, records);
  if (flags.has_prefix) return RecordsWithPrefix(store, records, filter, flags, keys);
  QUIRE_ASSIGN_OR_RETURN(const auto models, MatchingModels(store, filter, flags.store.model));
  std::set<Digest> wanted;
  for (const CataloguedModel& model : models) wanted.insert(model.fingerprint);
  std::erase_if(records, [&](const CataloguedRecord& record) {
    return !wanted.contains(record.fingerprint);
  });
  return records;
}

// A directory that others may write to is taken as a server takes it.
Result<SealDemand> DemandOf(const StoreFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, StoreDirectory(flags));
  const auto directory =
      DiskDirectory::Open(FileOps::System(), path, DiskDirectory::Missing::kFail);
  // Where it cannot be opened, who opens the store says why.
  if (!directory.ok() || directory->is_private() || flags.seal.trust_remote) {
    return SealDemand::kNone;
  }
  if (!flags.seal.key_file.empty()) return SealDemand::kDemanded;
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: others may enter this directory, so its records are not trusted; chmod 700 "
                   "it, give --kv-key-file for sealed ones, or say --kv-trust-remote",
                   path.string());
}

Status Export(const ExportFlags& flags) {
  if (!flags.has_prefix && !flags.all && flags.store.model.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cache export: expected --model, --prefix or --all");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto keys, KeysOf(flags.store.seal));
  // A seal of ours says that we trust what is in it.
  QUIRE_ASSIGN_OR_RETURN(const SealDemand demand, DemandOf(flags.store));
  QUIRE_ASSIGN_OR_RETURN(const auto store, OpenStore(flags.store, CatalogueMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const Records records, RecordsToExport(*store, flags, keys));
  QUIRE_ASSIGN_OR_RETURN(const auto writer, RecordFileWriter::Create(flags.file, keys));
  RecordSealer sealer(keys, flags.encrypts);
  std::vector<std::byte> sealed;
  int64_t num_bad = 0;
  uint64_t num_bytes = 0;
  ProgressLine progress;
  for (size_t i = 0; i < records.size(); ++i) {
    if (Interrupted()) return MakeError(ErrorCode::kInterrupted, "interrupted; no file was made");
    progress.Show(fmt::format("{} of {} records", i, records.size()));
    const auto bytes = store->Read(records[i]);
    const RecordFault fault = bytes.ok() ? sealer.Seal(*bytes, Packing::kZstd, sealed, demand)  //
                                         : RecordFault::kIo;
    if (fault == RecordFault::kUnknownKey) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "record {}: encrypted or sealed with another key; give its key with "
                       "--kv-key-file FILE",
                       ShortHex(records[i].name.digest));
    }
    if (fault != RecordFault::kNone) {
      ++num_bad;
      continue;
    }
    num_bytes += sealed.size();
    QUIRE_RETURN_IF_ERROR(writer->Add(sealed));
  }
  QUIRE_RETURN_IF_ERROR(writer->Finish());
  progress.Clear();
  const auto num_records = static_cast<int64_t>(records.size()) - num_bad;
  if (flags.store.json) {
    const boost::json::object result = {{"file", flags.file},
                                        {"records", num_records},
                                        {"bytes", num_bytes},
                                        {"bad", num_bad},
                                        {"sealed", keys != nullptr}};
    fmt::print("{}\n", boost::json::serialize(result));
  } else {
    fmt::print("{} records, {} in {}{}\n", num_records, ShortBytes(num_bytes), flags.file,
               keys == nullptr ? " (without a seal: import asks for --kv-trust-remote)" : "");
  }
  if (num_bad == 0) return {};
  return MakeError(ErrorCode::kCorrupt,
                   "{} bad records were left out; `quire cache verify` lists "
                   "them",
                   num_bad);
}

// Makes the directory where it is not there, so that only its owner may enter it.
Status MakePrivate(const std::filesystem::path& directory) {
  std::error_code error;
  if (directory.has_parent_path())
    std::filesystem::create_directories(directory.parent_path(), error);
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return MakeError(ErrorCode::kIo, "{}: cannot be made: {}", directory.string(),
                   std::strerror(errno));
}

Status Import(const ImportFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto keys, KeysOf(flags.store.seal));
  if (keys == nullptr && !flags.store.seal.trust_remote) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cache import: whoever made the file could change answers; give the key that "
                     "it was sealed with (--kv-key-file FILE), or say --kv-trust-remote");
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t max_bytes, ParseByteSize(flags.max));
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, StoreDirectory(flags.store));
  QUIRE_RETURN_IF_ERROR(MakePrivate(directory));
  QUIRE_ASSIGN_OR_RETURN(const auto store, DiskCatalogue::Open(directory, CatalogueMode::kWrite));
  RecordSealer sealer(keys, flags.encrypts);
  std::vector<std::byte> sealed;
  int64_t num_added = 0, num_held = 0, num_bad = 0;
  Status status;
  ProgressLine progress;
  const auto take = [&](std::span<const std::byte> record) {
    if (Interrupted()) return false;
    progress.Show(fmt::format("{} records", num_added + num_held));
    if (sealer.Seal(record, Packing::kNone, sealed) != RecordFault::kNone) {
      ++num_bad;
      return true;
    }
    const Result<bool> added = store->Add(sealed, max_bytes);
    if (!added.ok()) {
      status = added.error();
      return false;
    }
    ++(*added ? num_added : num_held);
    return true;
  };
  // With trust, what has no seal is taken, and what has one is still proven.
  const SealDemand demand =
      flags.store.seal.trust_remote ? SealDemand::kNone : SealDemand::kDemanded;
  QUIRE_ASSIGN_OR_RETURN(const RecordFileSummary summary,
                         ReadRecordFile(flags.file, keys.get(), demand, take));
  progress.Clear();
  num_bad += summary.num_bad;
  if (flags.store.json) {
    const boost::json::object result = {{"added", num_added},
                                        {"held", num_held},
                                        {"bad", num_bad},
                                        {"is_whole", summary.is_whole},
                                        {"bytes", store->bytes()}};
    fmt::print("{}\n", boost::json::serialize(result));
  } else {
    fmt::print("{} records added, {} were there, {} bad; {} in {}\n", num_added, num_held, num_bad,
               ShortBytes(store->bytes()), directory.string());
  }
  QUIRE_RETURN_IF_ERROR(status);
  if (Interrupted()) return MakeError(ErrorCode::kInterrupted, "interrupted");
  if (num_bad == 0 && summary.is_whole) return {};
  return MakeError(
      ErrorCode::kCorrupt, "{}: {}{} bad records were passed over", flags.file,
      summary.is_whole ? "" : "the file was cut off or changed, or has no seal of these keys; ",
      num_bad);
}

}  // namespace

void AddCacheExportVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb = cache.add_subcommand("export", "Write prefixes into one file, packed by zstd");
  auto flags = std::make_shared<ExportFlags>();
  verb->add_option("FILE", flags->file, "the file to write; one that is there is replaced")
      ->required();
  AddDirectoryFlags(*verb, flags->store);
  AddModelFlag(*verb, flags->store);
  CLI::Option* prefix =
      verb->add_option("--prefix", flags->prefix,
                       "only prefixes whose text begins so, as `quire cache ls` shows it");
  verb->add_flag("--all", flags->all, "every record")->excludes(prefix);
  AddSealFlags(*verb, flags->store.seal);
  verb->add_flag("--kv-encrypt", flags->encrypts, "encrypt the records with the key")
      ->needs(verb->get_option("--kv-key-file"));
  verb->callback([flags, prefix, &exit_code] {
    flags->has_prefix = prefix->count() > 0;
    exit_code = Report(Export(*flags));
  });
}

void AddCacheImportVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb =
      cache.add_subcommand("import", "Take the records of a file that `quire cache export` wrote");
  auto flags = std::make_shared<ImportFlags>();
  verb->add_option("FILE", flags->file, "the file to read")->required();
  AddDirectoryFlags(*verb, flags->store);
  verb->add_option("--max", flags->max, "bytes of all files in the directory at most")
      ->capture_default_str();
  AddSealFlags(*verb, flags->store.seal);
  verb->add_flag("--kv-encrypt", flags->encrypts, "encrypt the records with the key")
      ->needs(verb->get_option("--kv-key-file"));
  verb->callback([flags, &exit_code] { exit_code = Report(Import(*flags)); });
}

}  // namespace quire
