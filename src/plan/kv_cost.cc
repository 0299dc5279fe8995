#include "plan/kv_cost.h"

#include <algorithm>
#include <limits>

#include "plan/model_shape.h"
#include "plan/saturating.h"

namespace quire {
namespace {

constexpr uint64_t kMaxElementsPerToken = uint64_t{1} << 28;

uint64_t ElementsPerToken(const KvLayerShape& shape) {
  return SaturatingMul(
      static_cast<uint64_t>(shape.num_kv_heads),
      static_cast<uint64_t>(shape.key_dim) + static_cast<uint64_t>(shape.value_dim));
}

}  // namespace

Result<KvCost> KvCost::Make(const ModelConfig& config, const KvElement& element) {
  const std::vector<KvLayerShape> shapes = KvShapesOfLayers(config);
  uint64_t elements = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    elements = SaturatingAdd(elements, ElementsPerToken(shapes[i]));
    if (elements > kMaxElementsPerToken) {
      return MakeError(ErrorCode::kCorrupt,
                       "the keys and values of one token have over {} elements up to layer {}",
                       kMaxElementsPerToken, i);
    }
    const bool whole =
        shapes[i].key_dim % kKvScaleGroup == 0 && shapes[i].value_dim % kKvScaleGroup == 0;
    if (element.needs_whole_groups && !whole) {
      return MakeError(ErrorCode::kUnsupported,
                       "layer {} has heads of {} and {} elements; {} stores multiples of {}; f16, "
                       "bf16, f32 and fp8 store any",
                       i, shapes[i].key_dim, shapes[i].value_dim, element.name, kKvScaleGroup);
    }
  }
  QUIRE_ASSIGN_OR_RETURN(KvLayout layout,
                         KvLayout::Make(shapes, element.type.value_or(KvType::kF16)));
  return KvCost(std::move(layout), element);
}

uint64_t KvCost::Scaled(uint64_t bytes) const {
  if (!element_.planned_only()) return bytes;
  // Exact: f16 sizes of whole groups are multiples of 64, and fp8 halves any.
  const int f16_bytes = KvElementOf(KvType::kF16).group_bytes;
  return bytes / f16_bytes * element_.group_bytes +
         bytes % f16_bytes * element_.group_bytes / f16_bytes;
}

uint64_t KvCost::FormulaBytes(int64_t num_tokens) const {
  return Scaled(layout_.FormulaBytes(num_tokens));
}

uint64_t KvCost::BlockBytes(int num_tokens, int chunk) const {
  return SaturatingMul(static_cast<uint64_t>(Blocks(num_tokens, chunk)), BytesPerBlock());
}

uint64_t KvCost::Bytes(KvBasis basis, int num_tokens, int chunk) const {
  return basis == KvBasis::kFormula ? FormulaBytes(num_tokens) : BlockBytes(num_tokens, chunk);
}

uint64_t KvCost::LayerBytes(int layer_idx, int64_t num_tokens) const {
  const KvLayer& layer = layout_.layers[layer_idx];
  const int window = layout_.groups[layer.group].window;
  const int64_t kept = window > 0 ? std::min<int64_t>(window, num_tokens) : num_tokens;
  const auto elements = static_cast<size_t>(layer.num_kv_heads);
  return static_cast<uint64_t>(kept) * Scaled(KvBytes(layout_.type, elements * layer.key_dim) +
                                              KvBytes(layout_.type, elements * layer.value_dim));
}

int64_t KvCost::SharedBlocks(int prefix_tokens) const {
  const auto full = std::ranges::count(layout_.groups, 0, &KvGroup::window);
  return full * (prefix_tokens / kBlockSlots);
}

int KvCost::LargestContext(KvBasis basis, uint64_t bytes, int num_sequences, int chunk) const {
  return LargestThat(std::numeric_limits<int>::max(), [&](int num_tokens) {
    return SaturatingMul(Bytes(basis, num_tokens, chunk), static_cast<uint64_t>(num_sequences)) <=
           bytes;
  });
}

}  // namespace quire
