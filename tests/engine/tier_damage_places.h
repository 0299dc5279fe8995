// Where damaged stores lie: a directory whose files a case lays out and harms, and a Redis server
// that is filled and harmed, or something else that answers in its place.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "engine/tier_damage_store.h"
#include "support/faulty_files.h"
#include "support/redis_server.h"
#include "support/scratch_directory.h"

namespace quire::testing {

class DamageDisk {
 public:
  // The store's files as they were; `is_empty`: none.
  void Lay(const DamageStore& store, bool is_empty);
  TierFactory Factory();
  // Ends what is injected, and removes what stands in the files' place.
  void Heal();

  std::filesystem::path PathOf(const std::string& file) const { return directory() / file; }
  std::filesystem::path directory() const { return scratch_.path() / "kv"; }
  FaultyFiles& files() { return files_; }

  // Of a file that is open elsewhere: its bytes change where they are.
  void OverwriteInPlace(const std::string& file, const std::string& bytes) const;

 private:
  ScratchDirectory scratch_;
  FaultyFiles files_;
};

class DamageRemote {
 public:
  static bool IsThere() { return RedisServer::IsThere(); }

  DamageRemote();

  void Lay(const DamageStore& store, bool is_empty);
  TierFactory Factory(bool has_key);
  // A server that works; what it holds is not looked after.
  void Heal();

  // One command over a connection that has been let in; the reply.
  RespReply Ask(std::initializer_list<std::string_view> words);
  // The same, of a setting: it has its old value back with Heal.
  void Change(std::initializer_list<std::string_view> words);
  void Kill();
  void Pause();
  // Something else answers at its address from here on; what is connected stays connected.
  void Replace(std::function<void(ScriptedServer::Peer&)> talk);

 private:
  std::filesystem::path Address() const { return scratch_.path() / "address.sock"; }
  void PointTo(const std::string& socket);

  ScratchDirectory scratch_;
  RedisServer server_;
  std::unique_ptr<RespConnection> connection_;
  std::unique_ptr<ScriptedServer> other_;
  bool is_dead_ = false;
  bool is_paused_ = false;
  bool is_changed_ = false;  // its settings
};

}  // namespace quire::testing
