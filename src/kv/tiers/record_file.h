// Records in one file, to be carried elsewhere: `quire cache export` and `import`.
//
//   file head | records, each with its length in front | end: count and a MAC over all of it
//
// docs/kv-format.md gives every byte. A file without its end was cut off: what came before is
// proven record by record all the same. With a key, every record and the whole file are sealed.
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "kv/tiers/key_ring.h"
#include "kv/tiers/record_codec.h"

namespace quire {

// Writes a file under another name and gives it its own when whole: never half a file.
class RecordFileWriter {
 public:
  // keys: null = not sealed.
  static Result<std::unique_ptr<RecordFileWriter>> Create(const std::filesystem::path& path,
                                                          std::shared_ptr<const KeyRing> keys);
  virtual ~RecordFileWriter() = default;

  virtual Status Add(std::span<const std::byte> record) = 0;
  // Ends and publishes it. Without this nothing is left behind.
  virtual Status Finish() = 0;
};

struct RecordFileSummary {
  int64_t num_records = 0;
  int64_t num_bad = 0;    // records that did not prove themselves, and were passed over
  bool is_whole = false;  // the end is there, and fits
};

// Calls `take` for each record that proves itself; false from it ends the reading. Fails where the
// file cannot be read or is not one; a fault inside is counted, never trusted. With keys unsealed
// records are passed over.
Result<RecordFileSummary> ReadRecordFile(
    const std::filesystem::path& path, const KeyRing* keys, SealDemand demand,
    const std::function<bool(std::span<const std::byte> record)>& take);

}  // namespace quire
