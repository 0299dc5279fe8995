#include "kv/tiers/record.h"

namespace quire {

std::string_view NameOf(RecordFault fault) {
  switch (fault) {
    case RecordFault::kNone:
      return "none";
    case RecordFault::kAbsent:
      return "absent";
    case RecordFault::kCancelled:
      return "cancelled";
    case RecordFault::kTruncated:
      return "truncated";
    case RecordFault::kForeign:
      return "foreign";
    case RecordFault::kVersion:
      return "version";
    case RecordFault::kChecksum:
      return "checksum";
    case RecordFault::kOtherModel:
      return "other_model";
    case RecordFault::kOtherBlock:
      return "other_block";
    case RecordFault::kUnsealed:
      return "unsealed";
    case RecordFault::kUnknownKey:
      return "unknown_key";
    case RecordFault::kForged:
      return "forged";
    case RecordFault::kBadPayload:
      return "bad_payload";
    case RecordFault::kIo:
      return "io";
    case RecordFault::kTimeout:
      return "timeout";
    case RecordFault::kDown:
      return "down";
  }
  return "";
}

}  // namespace quire
