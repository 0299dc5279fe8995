#include "cli/cache/record_sealer.h"

#include <utility>

namespace quire {
namespace {

// Far more than any model has.
constexpr int kMaxGroups = 4096;

}  // namespace

RecordSealer::RecordSealer(std::shared_ptr<const KeyRing> keys, bool encrypts)
    : keys_(std::move(keys)), encrypts_(encrypts) {}

RecordFault RecordSealer::Seal(std::span<const std::byte> record, Packing packing,
                               std::vector<std::byte>& sealed, SealDemand demand) {
  RecordHead head;
  if (const auto fault = ReadHead(record, &head); fault != RecordFault::kNone) return fault;
  const auto fault = OpenRecord(record, keys_.get(), demand, &block_, &payload_);
  if (fault != RecordFault::kNone) return fault;
  StoredModel model{.fingerprint = head.fingerprint,
                    .ingredients = head.ingredients,
                    .type = head.type,
                    .group_bytes = {payload_.size()}};
  if (block_.group >= kMaxGroups || !RecordCodec::CanStore(model).ok())
    return RecordFault::kBadPayload;
  // Of the other groups nothing is asked.
  model.group_bytes.resize(static_cast<size_t>(block_.group) + 1, payload_.size());
  const RecordCodec codec(std::move(model), keys_, encrypts_ || (head.is_encrypted && keys_));
  codec.Encode(block_, payload_, packing, sealed);
  return RecordFault::kNone;
}

}  // namespace quire
