#include "speculation/drafter.h"

#include <algorithm>

namespace quire {
namespace {

// What the rates of all weigh in a sequence's, in outcomes, and how many of its own count.
constexpr double kWeightOfAll = 6;
constexpr double kMostOutcomes = 48;

}  // namespace

Drafter::Drafter(std::span<const int32_t> tokens, const HitRates& of_all)
    : lookup_(tokens), rates_(of_all, kWeightOfAll, kMostOutcomes) {}

void Drafter::Push(std::span<const int32_t> tokens, HitRates& of_all) {
  const int32_t token = tokens.back();
  const auto count = [&](int hit_class, bool was_right) {
    rates_.Add(hit_class, was_right);
    of_all.Add(hit_class, was_right);
  };
  if (lookup_.predicts()) {
    count(HitRates::ClassOf(lookup_.match_length()),
          lookup_.Prediction(tokens.first(tokens.size() - 1), 0) == token);
  }
  if (has_continuation()) {
    const bool was_right = continuation_[next_] == token;
    count(HitRates::kCachedClass, was_right);
    next_ = was_right ? next_ + 1 : continuation_.size();
  }
  lookup_.Push(tokens);
}

bool Drafter::WantsContinuation() const {
  return !has_continuation() &&
         (!lookup_.predicts() || lookup_.match_length() < PromptLookup::kKeyTokens);
}

void Drafter::SetContinuation(std::vector<int32_t> tokens) {
  continuation_ = std::move(tokens);
  next_ = 0;
}

bool Drafter::uses_continuation() const {
  return has_continuation() &&
         (!lookup_.predicts() || lookup_.match_length() < PromptLookup::kKeyTokens);
}

std::vector<double> Drafter::Chances(int most) const {
  const bool is_cached = uses_continuation();
  if (!is_cached && !lookup_.predicts()) return {};
  if (is_cached) most = std::min(most, static_cast<int>(continuation_.size() - next_));
  std::vector<double> chances;
  double chance = 1;
  for (int i = 0; i < most; ++i) {
    chance *= rates_.Rate(is_cached ? HitRates::kCachedClass
                                    : HitRates::ClassOf(lookup_.match_length() + i));
    chances.push_back(chance);
  }
  return chances;
}

std::vector<int32_t> Drafter::Draft(std::span<const int32_t> tokens, int count) const {
  std::vector<int32_t> draft;
  if (uses_continuation()) {
    const auto known = std::span(continuation_).subspan(next_);
    const auto taken = known.first(std::min<size_t>(known.size(), static_cast<size_t>(count)));
    return {taken.begin(), taken.end()};
  }
  for (int i = 0; i < count; ++i) {
    draft.push_back(lookup_.predicts() ? lookup_.Prediction(tokens, i) : tokens.back());
  }
  return draft;
}

}  // namespace quire
