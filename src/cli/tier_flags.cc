#include "cli/tier_flags.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/redis/redis_tier.h"
#include "kv/tiers/redis/redis_url.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

// Below, not even the blocks of one long prompt find room; above, no file system goes.
constexpr uint64_t kLeastDiskBytes = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 50;
// Longer is for ever. Ten years.
constexpr double kLongestTtl = 3650.0 * 86'400;

Result<uint64_t> SizeOf(std::string_view flag, const std::string& text, uint64_t least) {
  const Result<uint64_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {}", flag, bytes.error().message);
  }
  if (*bytes < least || *bytes > kMostBytes) {
    return MakeError(ErrorCode::kInvalidArgument, "{} {}: expected {} to 1024TiB", flag, text,
                     least == 0 ? "0" : "1MiB");
  }
  return *bytes;
}

std::string RedisUrlOf(const TierFlags& flags) {
  if (flags.redis) return *flags.redis;
  const char* variable = std::getenv("QUIRE_KV_REDIS");
  return variable == nullptr ? std::string() : std::string(variable);
}

Result<DiskTierOptions> DiskOptionsOf(const TierFlags& flags, uint64_t tenant_max_bytes) {
  DiskTierOptions options;
  options.directory = flags.disk;
  QUIRE_ASSIGN_OR_RETURN(options.max_bytes,
                         SizeOf("--kv-disk-max", flags.disk_max, kLeastDiskBytes));
  QUIRE_ASSIGN_OR_RETURN(options.min_free_bytes,
                         SizeOf("--kv-disk-min-free", flags.disk_min_free, 0));
  options.tenant_max_bytes = tenant_max_bytes;
  options.read_only = flags.disk_read_only;
  options.trust_directory = flags.trust_remote;
  return options;
}

Result<RedisTierOptions> RedisOptionsOf(const TierFlags& flags, std::string url,
                                        uint64_t tenant_max_bytes) {
  const std::string_view source = flags.redis ? "--kv-redis" : "QUIRE_KV_REDIS";
  if (const Result<RedisUrl> parsed = ParseRedisUrl(url); !parsed.ok()) {
    return MakeError(parsed.error().code, "{}: {}", source, parsed.error().message);
  }
  if (flags.key_file.empty() && !flags.trust_remote) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: whoever may write to the server could change answers; give "
                     "--kv-key-file FILE, with which blocks are sealed, or --kv-trust-remote",
                     source);
  }
  if (flags.redis_ttl_s != 0 && flags.redis_ttl_s < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "--kv-redis-ttl {}: expected 0, or 1 to {}",
                     flags.redis_ttl_s, kLongestTtl);
  }
  RedisTierOptions options;
  options.url = std::move(url);
  options.ttl_s = flags.redis_ttl_s;
  options.tenant_max_bytes = tenant_max_bytes;
  options.trust_remote = flags.trust_remote;
  return options;
}

}  // namespace

void AddSealFlags(CLI::App& app, TierFlags& flags) {
  app.add_option("--kv-key-file", flags.key_file,
                 "a file of keys, 64 hexadecimal digits a line, that only its owner may read: "
                 "blocks that leave memory are sealed with the first, and taken back only with a "
                 "seal of one of them (`openssl rand -hex 32` makes a key; default: no seals)");
  app.add_flag("--kv-trust-remote", flags.trust_remote,
               "take blocks without a seal from a Redis server, an imported file or a directory "
               "that others may write: whoever may write there can change answers");
}

void AddTierFlags(CLI::App& app, TierFlags& flags) {
  CLI::Option* disk = app.add_option(
      "--kv-disk", flags.disk,
      "a directory that keeps the keys and values that leave memory, and gives them back after a "
      "restart; made where it is not there (default: none)");
  // As of a variable that is not set: to go on without a disk is not what was asked for.
  disk->check([](const std::string& text) {
    return text.empty() ? std::string("expected a directory, got nothing") : std::string();
  });
  app.add_option("--kv-disk-max", flags.disk_max,
                 "bytes of all files in that directory at most, 1MiB to 1024TiB")
      ->needs(disk)
      ->capture_default_str();
  app.add_option("--kv-disk-min-free", flags.disk_min_free,
                 "bytes that stay free on its file system, 0 to 1024TiB")
      ->needs(disk)
      ->capture_default_str();
  app.add_flag("--kv-disk-read-only", flags.disk_read_only,
               "only read there, beside another process of the same user that writes")
      ->needs(disk);
  app.add_option("--kv-redis", flags.redis,
                 "a Redis or Valkey server that keeps keys and values for all processes of the "
                 "model: redis://[user[:password]@]host[:port][/db] or unix:///path; other users "
                 "of this machine see a password here, so prefer the variable QUIRE_KV_REDIS "
                 "(default: that variable, else none)");
  app.add_option("--kv-redis-ttl", flags.redis_ttl_s,
                 "seconds that the server keeps a block since it was stored or last used, at most "
                 "ten years; 0 = no limit")
      ->check(CLI::Range(0.0, kLongestTtl))
      ->capture_default_str();
  AddSealFlags(app, flags);
  app.add_flag("--kv-encrypt", flags.encrypts,
               "encrypt what leaves memory, token ids included, with the key of --kv-key-file")
      ->needs(app.get_option("--kv-key-file"));
  app.add_option("--kv-tenant-max", flags.tenant_max,
                 "bytes of one tenant in each of these places at most, 0 to 1024TiB; 0 = no quota")
      ->capture_default_str();
}

Result<std::shared_ptr<const KeyRing>> KeysOf(const TierFlags& flags) {
  if (flags.key_file.empty()) return std::shared_ptr<const KeyRing>();
  return KeyRing::FromFile(flags.key_file);
}

Result<TierOptions> TierOptionsOf(const TierFlags& flags) {
  TierOptions options;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t tenant_max, SizeOf("--kv-tenant-max", flags.tenant_max, 0));
  const std::string url = RedisUrlOf(flags);
  if (flags.encrypts && flags.key_file.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "--kv-encrypt needs --kv-key-file");
  }
  if (!flags.disk.empty()) {
    QUIRE_ASSIGN_OR_RETURN(DiskTierOptions disk, DiskOptionsOf(flags, tenant_max));
    // What a position costs beside the first one: the engine learns it, the disk's threads ask.
    const auto depth_share = std::make_shared<std::atomic<double>>(0);
    options.on_prefill_cost = [depth_share](const PrefillCost& cost) {
      if (cost.is_known()) *depth_share = cost.depth_ms / cost.token_ms;
    };
    disk.cost = [depth_share](int entry) { return 1 + *depth_share * entry * kBlockSlots; };
    options.factories.emplace_back([disk](std::shared_ptr<const RecordCodec> codec) {
      return OpenDiskTier(std::move(codec), disk);
    });
  }
  if (!url.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const RedisTierOptions redis, RedisOptionsOf(flags, url, tenant_max));
    options.factories.emplace_back([redis](std::shared_ptr<const RecordCodec> codec) {
      return OpenRedisTier(std::move(codec), redis);
    });
  }
  QUIRE_ASSIGN_OR_RETURN(options.keys, KeysOf(flags));
  options.encrypts = flags.encrypts;
  return options;
}

}  // namespace quire
