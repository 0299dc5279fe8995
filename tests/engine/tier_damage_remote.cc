#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/tier_damage_kinds.h"

namespace quire::testing {
namespace {

using Moment = DamageMoment;
using Outcome = DamageOutcome;
using Peer = ScriptedServer::Peer;
using Scene = DamageScene;

// --- Values ---

void Set(const Scene& scene, size_t piece, const std::string& value) {
  scene.remote->Ask({"SET", scene.store.KeyOf(piece), value});
}

std::string ValueOf(const Scene& scene, size_t piece) {
  return scene.store.RecordOf(piece, Packing::kZstd);
}

template <typename Change>
void ChangeValues(const Scene& scene, Change change) {
  for (const size_t piece : PiecesToHarm(scene)) Set(scene, piece, change(piece));
}

void FlipValues(const Scene& scene) {
  ChangeValues(scene, [&](size_t piece) {
    std::string value = ValueOf(scene, piece);
    scene.random.FlipBits(value, 0, value.size());
    return value;
  });
}

void CutValues(const Scene& scene) {
  ChangeValues(scene, [&](size_t piece) {
    const std::string value = ValueOf(scene, piece);
    return value.substr(0, 1 + scene.random.Below(value.size() - 1));
  });
}

void SwapValues(const Scene& scene) {
  const size_t num_pieces = scene.store.pieces().size();
  ChangeValues(scene, [&](size_t piece) { return ValueOf(scene, (piece + 1) % num_pieces); });
}

void ChangeTypes(const Scene& scene) {
  for (const size_t piece : PiecesToHarm(scene)) {
    const std::string key = scene.store.KeyOf(piece);
    scene.remote->Ask({"UNLINK", key});
    switch (scene.random.Below(3)) {
      case 0:
        scene.remote->Ask({"LPUSH", key, "a", "b"});
        break;
      case 1:
        scene.remote->Ask({"HSET", key, "a", "b"});
        break;
      default:
        scene.remote->Ask({"SADD", key, "a"});
    }
  }
}

void PutTooMuch(const Scene& scene) {
  Scene one = scene;
  one.harms_all = false;
  const std::string value(size_t{10} << 20, 'x');
  for (const size_t piece : PiecesToHarm(one)) Set(scene, piece, value);
}

template <Forgery forgery>
void SetForged(const Scene& scene) {
  ChangeValues(scene, [&](size_t piece) {
    return scene.store.Forge(forgery, piece, Packing::kZstd, scene.random);
  });
}

// --- The server ---

void Kill(const Scene& scene) { scene.remote->Kill(); }
void Pause(const Scene& scene) { scene.remote->Pause(); }
void Flush(const Scene& scene) { scene.remote->Ask({"FLUSHALL"}); }

void FillUp(const Scene& scene) { scene.remote->Change({"CONFIG", "SET", "maxmemory", "1"}); }

void AskForPassword(const Scene& scene) {
  scene.remote->Change({"CONFIG", "SET", "requirepass", "secret"});
}

template <typename... Words>
void Forbid(const Scene& scene, Words... words) {
  scene.remote->Change({"ACL", "SETUSER", "default", words...});
}

// --- Another program at its address ---

// Answers whatever comes with the same bytes.
void Answer(const Scene& scene, std::string reply) {
  scene.remote->Replace([reply = std::move(reply)](Peer& peer) {
    while (!peer.Read().empty()) {
      if (!peer.Write(reply)) return;
    }
  });
}

void SpeakHttp(const Scene& scene) {
  Answer(scene, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
}

void SayOkToAll(const Scene& scene) { Answer(scene, "+OK\r\n"); }

void Babble(const Scene& scene) { Answer(scene, scene.random.Bytes(500)); }

void HangUp(const Scene& scene) {
  scene.remote->Replace([](Peer&) {});
}

void KeepSilent(const Scene& scene) {
  scene.remote->Replace([](Peer& peer) {
    while (!peer.Read().empty()) {
    }
  });
}

// Greets as it should; whatever else it is asked is answered by `talk`.
void Greet(const Scene& scene, std::function<void(Peer&)> talk) {
  scene.remote->Replace([talk = std::move(talk)](Peer& peer) {
    for (std::string words = peer.Read(); !words.empty(); words = peer.Read()) {
      if (words.find("PING") == std::string::npos) {
        talk(peer);
        return;
      }
      if (!peer.Write("+PONG\r\n")) return;
    }
  });
}

// A string that is said to be long and comes for ever.
void Pour(const Scene& scene) {
  Greet(scene, [](Peer& peer) {
    if (!peer.Write("$500000000\r\n")) return;
    const std::string some(size_t{16} << 10, 'x');
    while (peer.Write(some)) {
    }
  });
}

void Trickle(const Scene& scene) {
  Greet(scene, [](Peer& peer) {
    const std::string reply = "$4096\r\n" + std::string(4096, 'x');
    for (const char byte : reply) {
      if (!peer.Write({&byte, 1}) || !peer.Wait(1000)) return;
    }
  });
}

// What is connected is cut off first.
template <void (*replace)(const Scene&)>
void KillAnd(const Scene& scene) {
  scene.remote->Kill();
  replace(scene);
}

const std::vector<DamageKind>& Kinds() {
  static const std::vector<DamageKind> kinds = {
      {"redis: bits flipped", Moment::kBefore, Outcome::kNoticed, FlipValues},
      {"redis: bits flipped under it", Moment::kOpen, Outcome::kNoticed, FlipValues},
      {"redis: values cut", Moment::kBefore, Outcome::kNoticed, CutValues},
      {"redis: values swapped", Moment::kBefore, Outcome::kNoticed, SwapValues},
      {"redis: empty values", Moment::kBefore, Outcome::kAny,
       [](const Scene& s) { ChangeValues(s, [](size_t) { return std::string(); }); }},
      {"redis: garbage", Moment::kBefore, Outcome::kNoticed,
       [](const Scene& s) {
         ChangeValues(s, [&](size_t) { return s.random.Bytes(1 + s.random.Below(5000)); });
       }},
      {"redis: 10 MiB of garbage", Moment::kBefore, Outcome::kAny, PutTooMuch},
      {"redis: wrong types", Moment::kBefore, Outcome::kNoticed, ChangeTypes},
      {"redis: another model's records", Moment::kBefore, Outcome::kNoticed,
       SetForged<Forgery::kOtherModel>},
      {"redis: another tenant's records", Moment::kBefore, Outcome::kNoticed,
       SetForged<Forgery::kOtherTenant>},
      {"redis: another block's records", Moment::kBefore, Outcome::kNoticed,
       SetForged<Forgery::kOtherBlock>},
      {.name = "redis: forged records",
       .outcome = Outcome::kNoticed,
       .harm = SetForged<Forgery::kForged>,
       .needs_key = true},
      {.name = "redis: unsealed records",
       .outcome = Outcome::kNoticed,
       .harm = SetForged<Forgery::kUnsealed>,
       .needs_key = true},
      {.name = "redis: seals stripped",
       .outcome = Outcome::kNoticed,
       .harm = SetForged<Forgery::kStripped>,
       .needs_key = true},
      {.name = "redis: sealed with another key",
       .outcome = Outcome::kNoticed,
       .harm = SetForged<Forgery::kUnknownKey>,
       .needs_key = true},
      {"redis: flushed under it", Moment::kOpen, Outcome::kAny, Flush},
      {"redis: flushed while busy", Moment::kBusy, Outcome::kAny, Flush},
      {.name = "redis: memory full",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = FillUp,
       .needs_empty = true},
      {"redis: a password asked for", Moment::kBefore, Outcome::kNoticed, AskForPassword},
      {"redis: reading forbidden", Moment::kOpen, Outcome::kNoticed,
       [](const Scene& s) { Forbid(s, "-getrange"); }},
      {"redis: looking up forbidden", Moment::kOpen, Outcome::kNoticed,
       [](const Scene& s) { Forbid(s, "-strlen"); }},
      {.name = "redis: storing forbidden",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = [](const Scene& s) { Forbid(s, "-set"); },
       .needs_empty = true},
      {.name = "redis: killed before", .outcome = Outcome::kNoticed, .harm = Kill, .is_slow = true},
      {.name = "redis: killed under it",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = Kill,
       .is_slow = true},
      {.name = "redis: killed while busy", .moment = Moment::kBusy, .harm = Kill, .is_slow = true},
      {.name = "redis: paused before",
       .outcome = Outcome::kNoticed,
       .harm = Pause,
       .is_slow = true},
      {.name = "redis: paused under it",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = Pause,
       .is_slow = true},
      {.name = "redis: paused while busy", .moment = Moment::kBusy, .harm = Pause, .is_slow = true},
      {"redis: a web server instead", Moment::kBefore, Outcome::kNoticed, SpeakHttp},
      {"redis: OK to everything", Moment::kBefore, Outcome::kNoticed, SayOkToAll},
      {"redis: babble", Moment::kBefore, Outcome::kNoticed, Babble},
      {"redis: hangs up", Moment::kBefore, Outcome::kNoticed, HangUp},
      {.name = "redis: a web server under it",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = KillAnd<SpeakHttp>,
       .is_slow = true},
      {.name = "redis: silence", .outcome = Outcome::kNoticed, .harm = KeepSilent, .is_slow = true},
      {.name = "redis: endless string",
       .outcome = Outcome::kNoticed,
       .harm = Pour,
       .is_slow = true},
      {.name = "redis: a byte a second",
       .outcome = Outcome::kNoticed,
       .harm = Trickle,
       .is_slow = true},
      {.name = "redis: a byte a second under it",
       .moment = Moment::kOpen,
       .outcome = Outcome::kNoticed,
       .harm = KillAnd<Trickle>,
       .is_slow = true},
  };
  return kinds;
}

}  // namespace

std::span<const DamageKind> RemoteDamageKinds() { return Kinds(); }

}  // namespace quire::testing
