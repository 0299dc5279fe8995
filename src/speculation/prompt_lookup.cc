#include "speculation/prompt_lookup.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kSlotsPerToken = 4;  // at least, so that few keys share a slot
constexpr size_t kLeastSlots = 1024;

size_t NumIndexed(std::span<const int32_t> tokens) {
  return std::min<size_t>(tokens.size(), PromptLookup::kMostIndexed);
}

}  // namespace

PromptLookup::PromptLookup(std::span<const int32_t> tokens) {
  places_.assign(std::bit_ceil(std::max(kLeastSlots, 2 * kSlotsPerToken * NumIndexed(tokens))), -1);
  const int num_tokens = static_cast<int>(tokens.size());
  IndexAllBefore(tokens, num_tokens);
  if (num_tokens < kKeyTokens) return;
  const int place = Find(tokens);
  Index(tokens, num_tokens);
  if (place >= 0) Follow(place, MatchLength(tokens, place));
}

// Of the key that ends before `end`.
size_t PromptLookup::SlotOf(std::span<const int32_t> tokens, int end) const {
  uint64_t hash = 0;
  for (int i = end - kKeyTokens; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash * 0xD1B54A32D192ED03u >> 20) & (places_.size() - 1);
}

void PromptLookup::Index(std::span<const int32_t> tokens, int end) {
  places_[SlotOf(tokens, end)] = end;
}

void PromptLookup::IndexAllBefore(std::span<const int32_t> tokens, int end) {
  for (int i = std::max(kKeyTokens, end - kMostIndexed); i < end; ++i) Index(tokens, i);
}

// The latest place that follows the last kKeyTokens tokens, the end itself left out.
int PromptLookup::Find(std::span<const int32_t> tokens) const {
  const int end = static_cast<int>(tokens.size());
  const int place = places_[SlotOf(tokens, end)];
  if (place < 0 || place >= end || end - place > kMostIndexed) return -1;
  const auto key = tokens.last(kKeyTokens);
  return std::ranges::equal(key, tokens.subspan(place - kKeyTokens, kKeyTokens)) ? place : -1;
}

int PromptLookup::MatchLength(std::span<const int32_t> tokens, int place) const {
  const int end = static_cast<int>(tokens.size());
  int length = 0;
  while (length < std::min(place, kMostCompared) &&
         tokens[place - 1 - length] == tokens[end - 1 - length]) {
    ++length;
  }
  return length;
}

void PromptLookup::Follow(int place, int match_length) {
  source_ = place;
  match_length_ = match_length;
}

void PromptLookup::Push(std::span<const int32_t> tokens) {
  const int end = static_cast<int>(tokens.size());
  QUIRE_CHECK(end > 0 && source_ < end, "source {} of {} tokens", source_, end);
  const bool was_right = source_ >= 0 && tokens[source_] == tokens.back();
  if (source_ >= 0 && !was_right && end - 1 - lost_at_ >= kLostTokens) {
    lost_source_ = source_;
    lost_at_ = end - 1;
  }
  if (was_right) {
    ++source_;
    ++match_length_;
  } else {
    source_ = -1;
  }
  if (end < kKeyTokens) return;
  if (places_.size() < kSlotsPerToken * NumIndexed(tokens)) {
    places_.assign(2 * places_.size(), -1);
    IndexAllBefore(tokens, end);
  }
  const int place = Find(tokens);
  Index(tokens, end);
  if (source_ < 0 || match_length_ < kKeyTokens) {
    const int length = place < 0 ? 0 : MatchLength(tokens, place);
    if (length > (source_ < 0 ? 0 : match_length_)) {
      Follow(place, length);
      return;
    }
  }
  if (source_ < 0) Resume(tokens);
}

// Goes on behind the place where the trail was lost.
void PromptLookup::Resume(std::span<const int32_t> tokens) {
  const int end = static_cast<int>(tokens.size());
  if (lost_source_ < 0 || end - 1 - lost_at_ >= kLostTokens) return;
  const int last = std::min(lost_source_ + kLostTokens, end - 1);
  int best = 0;
  for (int place = lost_source_ + 1; place <= last; ++place) {
    const int length = MatchLength(tokens, place);
    if (length <= best) continue;
    best = length;
    Follow(place, length);
  }
  if (best == 0 && end - 1 == lost_at_ && lost_source_ + 1 < end) {
    Follow(lost_source_ + 1, 0);
  }
}

int32_t PromptLookup::Prediction(std::span<const int32_t> tokens, int i) const {
  const int end = static_cast<int>(tokens.size());
  QUIRE_CHECK(source_ >= 0 && source_ < end && i >= 0, "token {} from {} of {}", i, source_, end);
  return tokens[source_ + i % (end - source_)];
}

}  // namespace quire
