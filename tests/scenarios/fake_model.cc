#include "scenarios/fake_model.h"

#include <fmt/format.h>

#include "base/check.h"

namespace quire {
namespace {

// Exact in a float.
constexpr uint32_t kKeys = 1 << 24;

float KeyAfter(float before, int32_t token) {
  const uint64_t mixed =
      (static_cast<uint64_t>(before) * 2654435761u + static_cast<uint32_t>(token) + 1) * 40503u;
  return static_cast<float>((mixed >> 5) % kKeys);
}

}  // namespace

KvLayout FakeModel::Layout(std::span<const int> windows) {
  std::vector<KvLayerShape> shapes;
  for (const int window : windows) {
    QUIRE_CHECK(window != 1, "no key before in a window of 1");
    shapes.push_back({.num_kv_heads = 1, .key_dim = 1, .value_dim = 1, .window = window});
  }
  return std::move(KvLayout::Make(shapes, KvType::kF32)).value();
}

// [key_dim 1][16 slots] and [16 slots][value_dim 1].
float* FakeModel::Slot(const StepItem& item, int group, int position, bool is_value) const {
  const PagedKvView view = cache_.view();
  for (const KvLayer& layer : view.layers) {
    if (layer.group != group) continue;
    const int32_t block = item.block_tables[group][position / kBlockSlots];
    if (block == kNoBlock) return nullptr;
    std::byte* begin = view.Block(block) + (is_value ? layer.value_offset : layer.key_offset);
    return reinterpret_cast<float*>(begin) + position % kBlockSlots;
  }
  return nullptr;
}

std::string FakeModel::Forward(std::span<const StepItem> items) const {
  for (const StepItem& item : items) {
    for (int group = 0; group < cache_.layout().num_groups(); ++group) {
      for (int row = 0; row < item.num_tokens; ++row) {
        const int position = item.first_position + row;
        const float* before = position == 0 ? nullptr : Slot(item, group, position - 1, false);
        if (position > 0 && before == nullptr) {
          return fmt::format("s{} has no block for position {}", item.sequence, position - 1);
        }
        float* key = Slot(item, group, position, false);
        float* value = Slot(item, group, position, true);
        if (key == nullptr || value == nullptr) {
          return fmt::format("s{} has no block for position {}", item.sequence, position);
        }
        *key = KeyAfter(before == nullptr ? 0 : *before, item.tokens[row]);
        *value = static_cast<float>(position);
      }
    }
  }
  // After all rows are written: a block that two sequences write shows.
  for (const StepItem& item : items) {
    const std::span<const int32_t> tokens(item.tokens.data() - item.first_position,
                                          item.first_position + item.num_tokens);
    for (int group = 0; group < cache_.layout().num_groups(); ++group) {
      if (std::string wrong = CheckEntries(item, tokens, group); !wrong.empty()) return wrong;
    }
  }
  return "";
}

// All entries that the step's first row reads, up to its last.
std::string FakeModel::CheckEntries(const StepItem& item, std::span<const int32_t> tokens,
                                    int group) const {
  const int window = cache_.layout().groups[group].window;
  const int first = window == 0 ? 0 : std::max(0, item.first_position - window + 1);
  float key = 0;
  for (int position = 0; position < static_cast<int>(tokens.size()); ++position) {
    key = KeyAfter(key, tokens[position]);
    if (position < first) continue;
    const float* stored = Slot(item, group, position, false);
    if (stored == nullptr || *stored != key ||
        *Slot(item, group, position, true) != static_cast<float>(position)) {
      return fmt::format("s{} reads a wrong entry at position {} of group {}", item.sequence,
                         position, group);
    }
  }
  return "";
}

int32_t FakeModel::Sample(std::span<const int32_t> tokens) {
  float key = 0;
  for (const int32_t token : tokens) key = KeyAfter(key, token);
  return static_cast<int32_t>(static_cast<uint32_t>(key) / 7 % 1000);
}

std::vector<int32_t> FakeModel::Alone(std::vector<int32_t> tokens, size_t num_tokens) {
  while (tokens.size() < num_tokens) tokens.push_back(Sample(tokens));
  return tokens;
}

}  // namespace quire
