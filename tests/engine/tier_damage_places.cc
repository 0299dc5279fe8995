#include "engine/tier_damage_places.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/redis/redis_tier.h"

namespace quire::testing {

void DamageDisk::Lay(const DamageStore& store, bool is_empty) {
  Heal();
  std::filesystem::remove_all(directory());
  // What others may enter is not trusted: there the key is what counts.
  QUIRE_CHECK(::mkdir(directory().c_str(), 0700) == 0);
  QUIRE_CHECK(::chmod(directory().c_str(), store.has_key() ? 0755 : 0700) == 0);
  if (is_empty) return;
  for (const auto& [name, bytes] : store.files()) WriteFile(PathOf(name), bytes);
}

TierFactory DamageDisk::Factory() {
  return [this](std::shared_ptr<const RecordCodec> codec) {
    return OpenDiskTier(std::move(codec), {.directory = directory(),
                                           .max_bytes = kDamageDiskBytes,
                                           .min_free_bytes = 0,
                                           .files = &files_});
  };
}

void DamageDisk::Heal() {
  files_.Clear();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory(), error)) {
    if (entry.is_directory()) std::filesystem::remove_all(entry.path(), error);
  }
}

void DamageDisk::OverwriteInPlace(const std::string& file, const std::string& bytes) const {
  const int fd = ::open(PathOf(file).c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;  // it is gone already
  (void)!::pwrite(fd, bytes.data(), bytes.size(), 0);
  ::close(fd);
}

DamageRemote::DamageRemote() { PointTo(server_.socket()); }

void DamageRemote::PointTo(const std::string& socket) {
  const auto link = scratch_.path() / "link";
  std::filesystem::create_symlink(socket, link);
  std::filesystem::rename(link, Address());
}

RespReply DamageRemote::Ask(std::initializer_list<std::string_view> words) {
  if (connection_ == nullptr) connection_ = ConnectTo(server_.socket());
  QUIRE_CHECK(connection_ != nullptr, "redis-server does not answer");
  RespReply reply;
  connection_->Send(words);
  const RespFault fault = connection_->Receive(In(10'000), {}, &reply);
  QUIRE_CHECK(fault == RespFault::kNone, "{}", connection_->reason());
  return reply;
}

void DamageRemote::Lay(const DamageStore& store, bool is_empty) {
  Heal();
  Ask({"FLUSHALL"});
  if (is_empty) return;
  for (size_t i = 0; i < store.pieces().size(); ++i) {
    connection_->Send({"SET", store.KeyOf(i), store.RecordOf(i, Packing::kZstd)});
  }
  for (size_t i = 0; i < store.pieces().size(); ++i) {
    RespReply reply;
    QUIRE_CHECK(connection_->Receive(In(10'000), {}, &reply) == RespFault::kNone);
    QUIRE_CHECK(reply.text == "OK", "{}", reply.text);
  }
}

TierFactory DamageRemote::Factory(bool has_key) {
  return [this, has_key](std::shared_ptr<const RecordCodec> codec) {
    return OpenRedisTier(std::move(codec), {.url = "unix://" + Address().string(),
                                            .trust_remote = !has_key,
                                            .connect_ms = 100,
                                            .store_ms = 200});
  };
}

void DamageRemote::Heal() {
  if (other_ != nullptr) {
    PointTo(server_.socket());
    other_ = nullptr;
  }
  if (std::exchange(is_paused_, false)) server_.Continue();
  if (std::exchange(is_dead_, false)) {
    connection_ = nullptr;
    server_.Start();
  }
  if (std::exchange(is_changed_, false)) {
    Ask({"CONFIG", "SET", "maxmemory", "0"});
    Ask({"CONFIG", "SET", "requirepass", ""});
    Ask({"ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all"});
  }
}

void DamageRemote::Kill() {
  server_.Kill();
  is_dead_ = true;
}

void DamageRemote::Pause() {
  server_.Pause();
  is_paused_ = true;
}

void DamageRemote::Change(std::initializer_list<std::string_view> words) {
  is_changed_ = true;
  const RespReply reply = Ask(words);
  QUIRE_CHECK(reply.kind != RespReply::Kind::kError, "{}", reply.text);
}

void DamageRemote::Replace(std::function<void(ScriptedServer::Peer&)> talk) {
  other_ = std::make_unique<ScriptedServer>(std::move(talk));
  PointTo(other_->socket());
}

}  // namespace quire::testing
