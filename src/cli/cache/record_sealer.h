// Makes a record anew for another place: proven, unpacked, and packed and sealed as that place
// wants it. What was encrypted stays so where there is a key.
// Used by one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kv/tiers/record_codec.h"

namespace quire {

class RecordSealer {
 public:
  // keys: prove the records and seal them; null = they are not sealed. encrypts needs keys.
  RecordSealer(std::shared_ptr<const KeyRing> keys, bool encrypts);

  // `sealed` becomes the record of the same block. Anything but kNone: what is wrong with `record`.
  RecordFault Seal(std::span<const std::byte> record, Packing packing,
                   std::vector<std::byte>& sealed, SealDemand demand = SealDemand::kNone);

 private:
  std::shared_ptr<const KeyRing> keys_;
  bool encrypts_;
  StoredBlock block_;
  std::vector<std::byte> payload_;
};

}  // namespace quire
