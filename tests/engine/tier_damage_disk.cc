#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "engine/tier_damage_kinds.h"
#include "kv/tiers/disk/index_format.h"

namespace quire::testing {
namespace {

using Call = FaultyFiles::Call;
using Moment = DamageMoment;
using Outcome = DamageOutcome;
using Scene = DamageScene;

constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();

size_t SlotAt(const Scene& scene, size_t piece) {
  return static_cast<size_t>(scene.store.pieces()[piece].slot) * scene.store.slot_bytes();
}

size_t RecordBytes(const Scene& scene, size_t piece) {
  return kRecordHeaderBytes + scene.store.pieces()[piece].payload.size();
}

// --- The files as bytes ---

std::string Slab(const Scene& scene) { return scene.store.files().at(scene.store.slab()); }
std::string Index(const Scene& scene) { return scene.store.files().at(scene.store.index()); }
void PutSlab(const Scene& scene, const std::string& bytes) {
  WriteFile(scene.disk.PathOf(scene.store.slab()), bytes);
}
void PutIndex(const Scene& scene, const std::string& bytes) {
  WriteFile(scene.disk.PathOf(scene.store.index()), bytes);
}
void Remove(const Scene& scene, const std::string& file) {
  std::filesystem::remove_all(scene.disk.PathOf(file));
}

std::string FlippedSlab(const Scene& scene) {
  std::string slab = Slab(scene);
  for (const size_t piece : PiecesToHarm(scene)) {
    scene.random.FlipBits(slab, SlotAt(scene, piece), RecordBytes(scene, piece));
  }
  return slab;
}

std::string FlippedIndex(const Scene& scene) {
  std::string index = Index(scene);
  for (const size_t piece : PiecesToHarm(scene)) {
    const auto slot = static_cast<size_t>(scene.store.pieces()[piece].slot);
    scene.random.FlipBits(index, kIndexHeaderBytes + slot * kIndexEntryBytes, kIndexEntryBytes);
  }
  if (scene.random.OneIn(4)) scene.random.FlipBits(index, 0, 512);
  return index;
}

void Swap(const Scene& scene) {
  std::string slab = Slab(scene);
  const size_t num_bytes = scene.store.slot_bytes();
  const std::vector<size_t> pieces = PiecesToHarm(scene);
  const size_t num_pieces = scene.store.pieces().size();
  // In a ring: each lies where the one before it lay.
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t from = pieces.size() > 1
                            ? pieces[(i + 1) % pieces.size()]
                            : (pieces[i] + 1 + scene.random.Below(num_pieces - 1)) % num_pieces;
    slab.replace(SlotAt(scene, pieces[i]), num_bytes, Slab(scene), SlotAt(scene, from), num_bytes);
  }
  PutSlab(scene, slab);
}

void CopyOver(const Scene& scene) {
  std::string slab = Slab(scene);
  const size_t from = scene.random.Below(scene.store.pieces().size());
  for (const size_t piece : PiecesToHarm(scene)) {
    slab.replace(SlotAt(scene, piece), scene.store.slot_bytes(), Slab(scene), SlotAt(scene, from),
                 scene.store.slot_bytes());
  }
  PutSlab(scene, slab);
}

void Zero(const Scene& scene) {
  std::string slab = Slab(scene);
  for (const size_t piece : PiecesToHarm(scene)) {
    const size_t num_bytes = RecordBytes(scene, piece);
    const size_t begin = scene.random.OneIn(2) ? 0 : scene.random.Below(num_bytes - 1);
    // The part that is lost is never zero already: a header or a payload begins the rest.
    std::fill_n(slab.begin() + static_cast<std::ptrdiff_t>(SlotAt(scene, piece) + begin),
                num_bytes - begin, '\0');
  }
  PutSlab(scene, slab);
}

void PutForged(const Scene& scene, Forgery forgery) {
  std::string slab = Slab(scene);
  for (const size_t piece : PiecesToHarm(scene)) {
    const std::string record = scene.store.Forge(forgery, piece, Packing::kNone, scene.random);
    slab.replace(SlotAt(scene, piece), record.size(), record);
  }
  PutSlab(scene, slab);
}

// Where they are found by the index alone.
template <Forgery forgery>
void PutOthers(const Scene& scene) {
  PutForged(scene, forgery);
}

// They bear the names of those that they replace: the slots may speak for themselves.
template <Forgery forgery>
void PutFalse(const Scene& scene) {
  PutForged(scene, forgery);
  if (scene.random.OneIn(2)) Remove(scene, scene.store.index());
}

void CutSlab(const Scene& scene) {
  std::string slab = Slab(scene);
  slab.resize(scene.random.Below(scene.harms_all ? kRecordHeaderBytes : slab.size()));
  PutSlab(scene, slab);
}

void CutIndex(const Scene& scene) {
  std::string index = Index(scene);
  index.resize(scene.random.Below(index.size()));
  PutIndex(scene, index);
}

void PutOtherModelsFiles(const Scene& scene) {
  PutSlab(scene, scene.store.other_slab());
  if (scene.random.OneIn(2)) PutIndex(scene, scene.store.other_index());
}

void PutForeignFiles(const Scene& scene) {
  WriteFile(scene.disk.PathOf("notes.txt"), "not a store");
  WriteFile(scene.disk.PathOf(std::string(64, 'f') + ".slab"), scene.random.Bytes(5000));
  WriteFile(scene.disk.PathOf(std::string(64, 'e') + ".index"), scene.random.Bytes(500));
  std::filesystem::create_directory(scene.disk.PathOf("folder"));
}

template <const std::string& (DamageStore::*file)() const>
void PutDirectory(const Scene& scene) {
  Remove(scene, (scene.store.*file)());
  std::filesystem::create_directory(scene.disk.PathOf((scene.store.*file)()));
}

// --- Files that are open ---

void FlipInPlace(const Scene& scene) {
  scene.disk.OverwriteInPlace(scene.store.slab(), FlippedSlab(scene));
}

void CutInPlace(const Scene& scene) {
  const bool cuts_slab = scene.harms_all || scene.random.OneIn(2);
  const std::string& file = cuts_slab ? scene.store.slab() : scene.store.index();
  std::error_code error;
  std::filesystem::resize_file(
      scene.disk.PathOf(file),
      scene.harms_all ? 100 : scene.random.Below(scene.store.files().at(file).size()), error);
}

void RemoveDirectory(const Scene& scene) { std::filesystem::remove_all(scene.disk.directory()); }

// --- Calls that fail ---

void Fail(const Scene& scene, Call call, int error) {
  scene.disk.files().Inject({.call = call, .times = kAlways, .error = error});
}

void FailAtRandom(const Scene& scene) {
  static constexpr std::array kErrors = {EIO, ENOSPC, EACCES, EROFS, EDQUOT, EMFILE, EINTR};
  FaultyFiles::Fault fault = {.call = static_cast<Call>(scene.random.Below(FaultyFiles::kNumCalls)),
                              .after = static_cast<int64_t>(scene.random.Below(40)),
                              .times = static_cast<int64_t>(1 + scene.random.Below(8)),
                              .error = kErrors[scene.random.Below(kErrors.size())]};
  const bool moves = fault.call == Call::kRead || fault.call == Call::kWrite;
  if (moves && scene.random.OneIn(2)) {
    fault.max_bytes = 1 + scene.random.Below(3000);
    if (scene.random.OneIn(2)) fault.error = 0;
  }
  scene.disk.files().Inject(fault);
}

void Shorten(const Scene& scene) {
  for (const Call call : {Call::kRead, Call::kWrite}) {
    scene.disk.files().Inject(
        {.call = call, .times = kAlways, .error = 0, .max_bytes = 1 + scene.random.Below(2000)});
  }
}

void Delay(const Scene& scene) {
  const auto delay_us = static_cast<int64_t>(20'000 + scene.random.Below(120'000));
  scene.disk.files().Inject({.call = Call::kRead, .times = 6, .error = 0, .delay_us = delay_us});
}

const std::vector<DamageKind>& Kinds() {
  static const std::vector<DamageKind> kinds = {
      {"disk: bits flipped in slots", Moment::kBefore, Outcome::kNoticed,
       [](const Scene& s) { PutSlab(s, FlippedSlab(s)); }},
      {"disk: bits flipped, no index", Moment::kBefore, Outcome::kNoticed,
       [](const Scene& s) {
         PutSlab(s, FlippedSlab(s));
         Remove(s, s.store.index());
       }},
      {"disk: bits flipped in the index", Moment::kBefore, Outcome::kAny,
       [](const Scene& s) { PutIndex(s, FlippedIndex(s)); }},
      {"disk: slab cut", Moment::kBefore, Outcome::kAny, CutSlab},
      {"disk: index cut", Moment::kBefore, Outcome::kHarmless, CutIndex},
      {"disk: slots swapped", Moment::kBefore, Outcome::kNoticed, Swap},
      {"disk: a slot over others", Moment::kBefore, Outcome::kAny, CopyOver},
      {"disk: slots zeroed", Moment::kBefore, Outcome::kNoticed, Zero},
      {"disk: another model's records", Moment::kBefore, Outcome::kNoticed,
       PutFalse<Forgery::kOtherModel>},
      {"disk: another tenant's records", Moment::kBefore, Outcome::kNoticed,
       PutOthers<Forgery::kOtherTenant>},
      {"disk: another block's records", Moment::kBefore, Outcome::kNoticed,
       PutOthers<Forgery::kOtherBlock>},
      {"disk: another model's files", Moment::kBefore, Outcome::kNoticed, PutOtherModelsFiles},
      {"disk: foreign files beside", Moment::kBefore, Outcome::kHarmless, PutForeignFiles},
      {"disk: garbage for a slab", Moment::kBefore, Outcome::kAny,
       [](const Scene& s) { PutSlab(s, s.random.Bytes(s.random.Below(200'000))); }},
      {"disk: garbage for an index", Moment::kBefore, Outcome::kHarmless,
       [](const Scene& s) { PutIndex(s, s.random.Bytes(s.random.Below(20'000))); }},
      {"disk: no index", Moment::kBefore, Outcome::kHarmless,
       [](const Scene& s) { Remove(s, s.store.index()); }},
      {"disk: no slab", Moment::kBefore, Outcome::kAny,
       [](const Scene& s) { Remove(s, s.store.slab()); }},
      {.name = "disk: a folder for a slab",
       .harm = PutDirectory<&DamageStore::slab>,
       .may_refuse = true},
      {.name = "disk: a folder for an index",
       .harm = PutDirectory<&DamageStore::index>,
       .may_refuse = true},
      {.name = "disk: forged records",
       .outcome = Outcome::kNoticed,
       .harm = PutFalse<Forgery::kForged>,
       .needs_key = true},
      {.name = "disk: unsealed records",
       .outcome = Outcome::kNoticed,
       .harm = PutFalse<Forgery::kUnsealed>,
       .needs_key = true},
      {.name = "disk: seals stripped",
       .outcome = Outcome::kNoticed,
       .harm = PutFalse<Forgery::kStripped>,
       .needs_key = true},
      {.name = "disk: sealed with another key",
       .outcome = Outcome::kNoticed,
       .harm = PutFalse<Forgery::kUnknownKey>,
       .needs_key = true},
      {"disk: bits flipped under it", Moment::kOpen, Outcome::kNoticed, FlipInPlace},
      {"disk: bits flipped while busy", Moment::kBusy, Outcome::kAny, FlipInPlace},
      {"disk: files cut under it", Moment::kOpen, Outcome::kNoticed, CutInPlace},
      {"disk: files cut while busy", Moment::kBusy, Outcome::kAny, CutInPlace},
      {"disk: slab deleted under it", Moment::kOpen, Outcome::kAny,
       [](const Scene& s) { Remove(s, s.store.slab()); }},
      {"disk: index deleted under it", Moment::kOpen, Outcome::kAny,
       [](const Scene& s) { Remove(s, s.store.index()); }},
      {"disk: all deleted while busy", Moment::kBusy, Outcome::kAny, RemoveDirectory},
      {"disk: reads fail", Moment::kOpen, Outcome::kNoticed,
       [](const Scene& s) { Fail(s, Call::kRead, EIO); }},
      {.name = "disk: unreadable",
       .harm = [](const Scene& s) { Fail(s, Call::kOpen, EACCES); },
       .may_refuse = true},
      {.name = "disk: writes fail",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = [](const Scene& s) { Fail(s, Call::kWrite, s.random.OneIn(2) ? EIO : EROFS); },
       .needs_empty = true},
      {.name = "disk: full",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm =
           [](const Scene& s) {
             Fail(s, Call::kAllocate, ENOSPC);
             Fail(s, Call::kWrite, ENOSPC);
           },
       .needs_empty = true},
      {.name = "disk: read-only",
       .harm =
           [](const Scene& s) {
             for (const Call call : {Call::kWrite, Call::kAllocate, Call::kTruncate}) {
               Fail(s, call, EROFS);
             }
           },
       .may_refuse = true},
      {"disk: short reads and writes", Moment::kOpen, Outcome::kHarmless, Shorten},
      {.name = "disk: calls fail at random", .harm = FailAtRandom, .may_refuse = true},
      {"disk: calls fail while busy", Moment::kBusy, Outcome::kAny, FailAtRandom},
      {.name = "disk: slow reads", .moment = Moment::kOpen, .harm = Delay, .is_slow = true},
  };
  return kinds;
}

}  // namespace

std::span<const DamageKind> DiskDamageKinds() { return Kinds(); }

std::vector<size_t> PiecesToHarm(const DamageScene& scene) {
  const size_t num_pieces = scene.store.pieces().size();
  std::vector<size_t> pieces;
  if (scene.harms_all) {
    for (size_t i = 0; i < num_pieces; ++i) pieces.push_back(i);
    return pieces;
  }
  // Different ones.
  const size_t first = scene.random.Below(num_pieces);
  const size_t stride = 1 + scene.random.Below(num_pieces / 3);
  for (size_t i = 0; i < 1 + scene.random.Below(3); ++i) {
    pieces.push_back((first + i * stride) % num_pieces);
  }
  std::sort(pieces.begin(), pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  return pieces;
}

}  // namespace quire::testing
