// Any bytes as the index of a directory of the disk tier, and as its slab: opening it gives a tier,
// whatever it lists is loaded as a block or a named fault, and it can be written to.
//
//   input = slab length in 256 bytes (1 byte) | slab | index
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "kv/tiers/disk/disk_catalogue.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/disk/index_format.h"

namespace {

using quire::ChildOf;
using quire::IndexEntry;
using quire::RootOf;
using quire::ToHex;

// A directory for the whole run.
class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "quire-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Directory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }
  void Fill(const std::string& name, std::span<const uint8_t> bytes) const {
    FILE* file = std::fopen((path_ / name).c_str(), "wb");
    if (file == nullptr) std::abort();
    if (!bytes.empty()) std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  }

 private:
  std::filesystem::path path_;
};

quire::StoredModel Model() {
  quire::FingerprintInput ingredients;
  ingredients.numerics_version = 1;
  return {
      .fingerprint = FingerprintOf(ingredients), .ingredients = ingredients, .group_bytes = {64}};
}

void ParseAlone(std::span<const uint8_t> bytes) {
  const auto all = std::as_bytes(bytes);
  (void)quire::DecodeIndexHeader(all);
  IndexEntry entry;
  for (size_t at = 0; at + quire::kIndexEntryBytes <= all.size(); at += quire::kIndexEntryBytes) {
    const std::span<const std::byte, quire::kIndexEntryBytes> one(all.data() + at,
                                                                  quire::kIndexEntryBytes);
    (void)DecodeIndexEntry(one, Model().fingerprint, static_cast<int64_t>(at), &entry);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Directory directory;
  static const auto codec = std::make_shared<quire::RecordCodec>(Model(), nullptr, false);
  const std::span<const uint8_t> input(data, size);
  ParseAlone(input);
  const size_t slab_bytes = size == 0 ? 0 : std::min<size_t>(size - 1, 256 * size_t{data[0]});
  const auto rest = input.subspan(size == 0 ? 0 : 1);
  const std::string stem = ToHex(Model().fingerprint);
  directory.Fill(stem + ".slab", rest.first(slab_bytes));
  directory.Fill(stem + ".index", rest.subspan(slab_bytes));

  const auto read = quire::DiskCatalogue::Open(directory.path(), quire::CatalogueMode::kRead);
  if (read.ok() && !(*read)->Verify(nullptr, nullptr).ok()) std::abort();

  quire::DiskTierOptions options = {.directory = directory.path(), .max_bytes = 1 << 20};
  options.min_free_bytes = 0;
  const auto tier = quire::OpenDiskTier(codec, options);
  if (!tier.ok()) std::abort();
  quire::StoredBlock block = {.root = RootOf(Model().fingerprint, "")};
  block.parent = block.root;
  block.id = ChildOf(block.parent, block.tokens);
  std::array<std::byte, 64> payload{};
  const auto soon = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  // It cannot be there unproven.
  for (int round = 0; round < 2; ++round) {
    const quire::BlockLoad load = {.block = block, .payload = payload};
    auto fault = quire::RecordFault::kNone;
    (*tier)->Load({&load, 1}, soon, nullptr, [&](size_t, quire::RecordFault it) { fault = it; });
    if (round == 1 && fault != quire::RecordFault::kNone) std::abort();
    payload.fill(std::byte{7});
    const auto outcome = (*tier)->Store(block, payload, soon);
    if (outcome != quire::StoreOutcome::kStored && outcome != quire::StoreOutcome::kHeld) {
      std::abort();
    }
  }
  return 0;
}
