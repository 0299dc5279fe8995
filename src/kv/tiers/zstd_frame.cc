#include "kv/tiers/zstd_frame.h"

#include <zstd.h>

#include <memory>

#include "base/check.h"

namespace quire {
namespace {

// Keys and values are nearly noise: higher levels take many times as long for a percent.
constexpr int kLevel = 1;

struct ContextDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::optional<size_t> PackFrame(std::span<const std::byte> payload, std::span<std::byte> frame) {
  thread_local const std::unique_ptr<ZSTD_CCtx, ContextDeleter> context(ZSTD_createCCtx());
  QUIRE_CHECK(context != nullptr, "no memory for zstd");
  const size_t size = ZSTD_compressCCtx(context.get(), frame.data(), frame.size(), payload.data(),
                                        payload.size(), kLevel);
  if (ZSTD_isError(size) != 0) return std::nullopt;
  return size;
}

bool UnpackFrame(std::span<const std::byte> frame, std::span<std::byte> payload) {
  thread_local const std::unique_ptr<ZSTD_DCtx, ContextDeleter> context(ZSTD_createDCtx());
  QUIRE_CHECK(context != nullptr, "no memory for zstd");
  // In one call the output itself is the window.
  const size_t size = ZSTD_decompressDCtx(context.get(), payload.data(), payload.size(),
                                          frame.data(), frame.size());
  return ZSTD_isError(size) == 0 && size == payload.size();
}

}  // namespace quire
