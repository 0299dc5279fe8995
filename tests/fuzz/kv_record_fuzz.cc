// Any bytes as a stored block and as a file of them: reading gives a named fault or the block, and
// with a key nothing but what was sealed with it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kv/tiers/record_codec.h"
#include "kv/tiers/record_file.h"
#include "kv/tiers/record_layout.h"

namespace {

using quire::RecordFault;
using quire::SealDemand;
using Bytes = std::vector<std::byte>;

void Require(bool condition) {
  if (!condition) std::abort();
}

// The model and block of tests/golden/kv, whose files the corpus begins with.
struct Golden {
  Golden() {
    std::array<uint8_t, 32> secret;
    std::iota(secret.begin(), secret.end(), 0);
    ring = quire::KeyRing::Make(std::span(&secret, 1)).value();
    model.ingredients.weights.fill(0x11);
    model.ingredients.architecture.fill(0x22);
    model.ingredients.layout.fill(0x33);
    model.ingredients.numerics_version = 7;
    model.fingerprint = quire::FingerprintOf(model.ingredients);
    model.group_bytes = {256, 2048};
    std::array<int32_t, quire::kBlockSlots> first;
    std::iota(first.begin(), first.end(), 1);
    std::iota(block.tokens.begin(), block.tokens.end(), 100);
    block.tokens.back() = 2147483647;
    block.root = quire::RootOf(model.fingerprint, "golden");
    block.parent = quire::ChildOf(block.root, first);
    block.id = quire::ChildOf(block.parent, block.tokens);
    block.group = 1;
    block.entry = 1;
    for (size_t i = 0; i < 2048; ++i) payload.push_back(static_cast<std::byte>(i * 7 % 61));
  }

  std::shared_ptr<const quire::KeyRing> ring;
  quire::StoredModel model;
  quire::StoredBlock block;
  Bytes payload;
};

// Whether the codec takes the record for the block.
bool IsTaken(const quire::RecordCodec& codec, const Golden& golden, Bytes record,
             SealDemand demand) {
  if (record.size() < quire::kRecordHeaderBytes) return false;
  const std::span<std::byte> bytes(record);
  Bytes payload(golden.payload.size());
  const RecordFault fault =
      codec.Decode(bytes.first<quire::kRecordHeaderBytes>(),
                   bytes.subspan(quire::kRecordHeaderBytes), golden.block, demand, payload);
  // Only what was sealed has the MAC.
  Require(fault != RecordFault::kNone || demand == SealDemand::kNone || payload == golden.payload);
  return fault == RecordFault::kNone;
}

void ReadRecord(const Golden& golden, const Bytes& record) {
  quire::RecordHead head;
  const RecordFault read = quire::ReadHead(record, &head);
  for (const quire::KeyRing* keys :
       {golden.ring.get(), static_cast<const quire::KeyRing*>(nullptr)}) {
    const auto verified = quire::VerifyRecord(record, keys, SealDemand::kNone);
    quire::StoredBlock block;
    Bytes payload;
    const auto opened = quire::OpenRecord(record, keys, SealDemand::kNone, &block, &payload);
    Require(read == RecordFault::kNone || verified == read);
    Require(verified == RecordFault::kNone || opened == verified);
    if (opened == RecordFault::kNone) {
      Require(payload.size() == head.payload_bytes);
      Require(block.id == quire::ChildOf(block.parent, block.tokens));
    }
  }
  static const quire::RecordCodec open(golden.model, nullptr, false);
  static const quire::RecordCodec keyed(golden.model, golden.ring, true);
  IsTaken(keyed, golden, record, SealDemand::kDemanded);
  if (IsTaken(open, golden, record, SealDemand::kNone)) {
    Require(quire::VerifyRecord(record, nullptr, SealDemand::kNone) == RecordFault::kNone);
  }
}

// A file in memory, reached by a path. One for the whole run: it is cut and filled again.
void ReadFile(const Golden& golden, const uint8_t* data, size_t size) {
  static const int fd = ::memfd_create("kv_record_fuzz", MFD_CLOEXEC);
  Require(fd >= 0 && ::ftruncate(fd, 0) == 0);
  Require(size == 0 || ::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  for (const quire::KeyRing* keys :
       {golden.ring.get(), static_cast<const quire::KeyRing*>(nullptr)}) {
    int64_t num_taken = 0;
    const auto summary = quire::ReadRecordFile(path, keys, SealDemand::kNone,
                                               [&](std::span<const std::byte> record) {
                                                 ++num_taken;
                                                 Require(record.size() <= size);
                                                 return true;
                                               });
    if (summary.ok()) Require(summary->num_records == num_taken);
    if (!summary.ok()) Require(!summary.error().message.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Golden golden;
  const auto bytes = std::as_bytes(std::span(data, size));
  Bytes record(bytes.begin(), bytes.end());
  ReadRecord(golden, record);
  ReadFile(golden, data, size);
  if (size >= quire::kRecordHeaderBytes) {
    // Once more as somebody would make it who knows how checksums are made.
    quire::HeaderBytes header;
    std::copy_n(record.begin(), header.size(), header.begin());
    quire::WriteChecksum(
        header, quire::ChecksumOf(header, std::span(record).subspan(quire::kRecordHeaderBytes)));
    std::copy(header.begin(), header.end(), record.begin());
    ReadRecord(golden, record);
  }
  return 0;
}
