// A model without weights that reads and writes the cache as a real one does.
//
// The "key" of a token is a number made of its id and of the key before it, which is read out of
// the cache; so it stands for the whole prefix, and a slot that was lost, mixed up or copied too
// late shows. What it samples is a function of the last key: a sequence says the same alone and in
// a crowd. The "value" is the position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/batch.h"

namespace quire {

class FakeModel {
 public:
  // One layer a window; 0 = all tokens. A window is at least 2, for the key before.
  static KvLayout Layout(std::span<const int> windows);

  explicit FakeModel(const KvCache& cache) : cache_(cache) {}

  // Computes the rows of a step. An empty string, or what it found wrong in the cache.
  std::string Forward(std::span<const StepItem> items) const;

  // The token that follows these.
  static int32_t Sample(std::span<const int32_t> tokens);
  // These and those that follow, num_tokens in all.
  static std::vector<int32_t> Alone(std::vector<int32_t> tokens, size_t num_tokens);

 private:
  std::string CheckEntries(const StepItem& item, std::span<const int32_t> tokens, int group) const;
  float* Slot(const StepItem& item, int group, int position, bool is_value) const;

  const KvCache& cache_;
};

}  // namespace quire
