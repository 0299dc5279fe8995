// What a directory of the disk tier holds, of all models: for `quire cache`. No model is needed.
//
// Opened to read it may stand beside a writer; opened to write it is the writer (kIo where there is
// one). Used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kv/tiers/record_codec.h"

namespace quire {

struct CataloguedModel {
  Digest fingerprint{};
  FingerprintInput ingredients{};
  KvType type = KvType::kF16;
  int64_t num_records = 0;
  int64_t num_slots = 0;
  uint64_t bytes = 0;     // of its files
  double last_use_s = 0;  // Unix time
};

struct CataloguedRecord {
  Digest fingerprint{};
  RecordName name{};
  RecordName parent{};  // of the record before it, in the same group; of the first the root's,
                        // which no record has
  TenantTag tenant{};
  int group = 0;
  int entry = 0;
  int64_t slot = 0;
  double last_use_s = 0;
  int64_t hits = 0;    // loads
  uint64_t bytes = 0;  // of its slot
};

struct CatalogueFault {
  CataloguedRecord record{};
  RecordFault fault = RecordFault::kNone;
};

enum class CatalogueMode : uint8_t { kRead, kWrite };

class DiskCatalogue {
 public:
  static Result<std::unique_ptr<DiskCatalogue>> Open(const std::filesystem::path& directory,
                                                     CatalogueMode mode);
  virtual ~DiskCatalogue() = default;

  virtual std::vector<CataloguedModel> models() const = 0;
  virtual std::vector<CataloguedRecord> records() const = 0;  // of all models
  virtual uint64_t bytes() const = 0;                         // of all files

  // The whole record, not proven.
  virtual Result<std::vector<std::byte>> Read(const CataloguedRecord& record) = 0;
  // Reads and proves every record. progress(done, total) may end it by returning false.
  virtual Result<std::vector<CatalogueFault>> Verify(
      const KeyRing* keys, const std::function<bool(int64_t done, int64_t total)>& progress) = 0;

  // These need kWrite.
  virtual Status Remove(const std::vector<CataloguedRecord>& records) = 0;
  // Adds a record that has proven itself, of any model; true where it was not there. Makes the
  // model's files where there are none; fails with kResourceExhausted beyond max_bytes.
  virtual Result<bool> Add(std::span<const std::byte> record, uint64_t max_bytes) = 0;
  // Removes faulty records, models but `keep` (null = none is removed for that), and files that are
  // not ours to keep (leftovers); gives free extents back, down to max_bytes (0 = as they are). The
  // bytes won.
  virtual Result<uint64_t> Collect(const Digest* keep, uint64_t max_bytes) = 0;
};

}  // namespace quire
