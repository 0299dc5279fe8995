#include "plan/model_shape.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/gguf.h"
#include "models/weight_plan.h"
#include "plan/byte_size.h"
#include "plan/saturating.h"

namespace quire {
namespace {

uint64_t Product(int64_t a, int64_t b) {
  return SaturatingMul(static_cast<uint64_t>(a), static_cast<uint64_t>(b));
}

uint64_t LayerParameters(const ModelConfig& config, const LayerConfig& layer,
                         const ParameterTraits& traits) {
  const int64_t d = config.d_model;
  const int64_t queries = int64_t{layer.num_heads} * layer.key_dim;
  const int64_t keys = int64_t{layer.num_kv_heads} * layer.key_dim;
  const int64_t values = int64_t{layer.num_kv_heads} * layer.value_dim;
  const int64_t mixed = int64_t{layer.num_heads} * layer.value_dim;
  uint64_t sum = Product(d, queries + keys + values + mixed);
  sum = SaturatingAdd(sum, Product(d, int64_t{layer.ffn_dim} * (config.gated_ffn ? 3 : 2)));
  const int norms = traits.post_norms ? 4 : 2;
  int64_t vectors = int64_t{norms} * d;
  if (traits.query_key_value_bias || traits.layer_norm) vectors += queries + keys + values;
  if (traits.query_key_norm) vectors += 2 * int64_t{layer.key_dim};
  // The biases of the norms, of the attention's output and of the feed-forward network.
  if (traits.layer_norm) vectors += (norms + 2) * d + layer.ffn_dim;
  return SaturatingAdd(sum, static_cast<uint64_t>(vectors));
}

// The heap block behind a string, as glibc rounds it; none up to 15 bytes.
uint64_t StringHeapBytes(size_t size) {
  return size <= 15 ? 0 : std::max<uint64_t>(32, AlignUp(size + 1 + 8, 16));
}

// A list of strings that is held twice: as views into the file, and as strings of the vocabulary.
uint64_t StringListBytes(const GgufFile& file, std::string_view key, size_t* count) {
  const auto list = file.GetStrings(key);
  if (!list.ok()) return 0;
  uint64_t bytes = 0;
  for (const std::string_view text : **list) bytes += StringHeapBytes(text.size());
  *count = (*list)->size();
  return bytes + *count * (sizeof(std::string_view) + sizeof(std::string));
}

// What reading the vocabulary leaves in memory, from the lengths of its lists: the lists of the
// file (text/vocabulary.h has them again), and hash tables that are at most half full.
uint64_t TextBytes(const GgufFile& file) {
  size_t num_tokens = 0;
  size_t num_merges = 0;
  uint64_t bytes = StringListBytes(file, "tokenizer.ggml.tokens", &num_tokens);
  bytes += StringListBytes(file, "tokenizer.ggml.merges", &num_merges);
  // Numbers are eight bytes each in the metadata; a kind is one in the vocabulary, a score four.
  if (file.FindValue("tokenizer.ggml.token_type") != nullptr) bytes += num_tokens * 9;
  if (file.FindValue("tokenizer.ggml.scores") != nullptr) bytes += num_tokens * (12 + 4);
  // What is looked up by id: eight bytes a token.
  bytes += std::bit_ceil(2 * num_tokens + 1) * sizeof(int32_t) + num_tokens * 8;
  if (num_merges > 0) bytes += std::bit_ceil(2 * num_merges + 1) * 16;
  return bytes;
}

// Metadata is everything in front of the first tensor.
uint64_t MappedBytes(const GgufFile& file) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < file.parts().size(); ++i) {
    const auto part = file.parts()[i].bytes();
    uint64_t first = part.size();
    for (const GgufTensor& tensor : file.tensors()) {
      if (static_cast<size_t>(tensor.part) != i || tensor.data.empty()) continue;
      first = std::min<uint64_t>(first, tensor.data.data() - part.data());
    }
    bytes += first;
  }
  return bytes;
}

// Without a file: an average of the published vocabularies, tables and mapped text together.
constexpr uint64_t kTextBytesPerToken = 220;

}  // namespace

uint64_t DenseParameters(const ModelConfig& config, const ParameterTraits& traits) {
  if (config.vocab_size == 0) return 0;
  uint64_t sum =
      Product(int64_t{config.vocab_size} * (traits.tied_embeddings ? 1 : 2), config.d_model);
  if (traits.learned_positions) {
    sum = SaturatingAdd(sum, Product(config.context_length, config.d_model));
  }
  for (const LayerConfig& layer : config.layers) {
    if (layer.ffn_dim == 0) return 0;
    sum = SaturatingAdd(sum, LayerParameters(config, layer, traits));
  }
  return SaturatingAdd(sum, Product(config.d_model, traits.layer_norm ? 2 : 1));
}

Result<ModelShape> ShapeOfFile(const GgufFile& file) {
  ModelShape shape;
  QUIRE_ASSIGN_OR_RETURN(shape.config, ReadModelConfig(file));
  QUIRE_ASSIGN_OR_RETURN(const WeightPlan weights, PlanWeights(file, shape.config));
  for (const PlannedWeight& weight : weights.weights) {
    shape.parameters += Product(weight.num_rows, weight.num_cols);
  }
  shape.tensors = TensorsOfPlan(weights);
  shape.weight_bytes = weights.packed_bytes;
  shape.weights_from = "packed, in the file's own types";
  shape.text_bytes = TextBytes(file);
  shape.mapped_bytes = MappedBytes(file);
  return shape;
}

void SetWeightBits(ModelShape& shape, double bits) {
  const double bytes = std::ceil(static_cast<double>(shape.parameters) * bits / 8);
  shape.weight_bytes = bytes < 1.8e19 ? static_cast<uint64_t>(bytes) : kNeverFits;
  SetTensorBits(shape.tensors, bits);
  shape.weights_from = fmt::format("{} parameters of {} bits", GroupDigits(shape.parameters), bits);
}

ModelShape ShapeOfHfConfig(const HfConfig& hf, const std::string& name) {
  ModelShape shape;
  ModelConfig& config = shape.config;
  config.architecture = hf.model_type;
  config.name = name;
  config.d_model = hf.d_model;
  config.vocab_size = hf.vocab_size;
  config.context_length = hf.context_length;
  config.gated_ffn = hf.gated_ffn;
  config.learned_positions = hf.learned_positions;
  config.query_key_norm = hf.query_key_norm;
  if (hf.layer_norm) config.norm = NormKind::kLayer;
  if (hf.post_norms) config.norm_placement = NormPlacement::kBeforeAndAfter;
  // True of the families that are accepted: GPT-2's children and Gemma.
  if (!hf.gated_ffn || hf.post_norms) config.activation = Activation::kGelu;
  if (!hf.learned_positions) config.ropes.push_back({.rotary_dim = hf.head_dim});
  for (int i = 0; i < hf.num_layers; ++i) {
    config.layers.push_back({.num_heads = hf.num_heads,
                             .num_kv_heads = hf.num_kv_heads,
                             .key_dim = hf.head_dim,
                             .value_dim = hf.head_dim,
                             .ffn_dim = hf.ffn_dim,
                             .window = hf.windows[i]});
  }
  shape.text_bytes = kTextBytesPerToken * static_cast<uint64_t>(hf.vocab_size);
  if (hf.num_experts == 0) {
    const ParameterTraits traits{.tied_embeddings = hf.tied_embeddings,
                                 .query_key_value_bias = hf.query_key_value_bias,
                                 .query_key_norm = hf.query_key_norm,
                                 .post_norms = hf.post_norms,
                                 .layer_norm = hf.layer_norm,
                                 .learned_positions = hf.learned_positions};
    shape.parameters = DenseParameters(config, traits);
    shape.tensors = TensorsOfTraits(config, traits);
  }
  if (shape.parameters > 0 && hf.weight_bits > 0) SetWeightBits(shape, hf.weight_bits);
  return shape;
}

std::vector<KvLayerShape> KvShapesOfLayers(const ModelConfig& config) {
  std::vector<KvLayerShape> shapes;
  shapes.reserve(config.layers.size());
  for (const LayerConfig& layer : config.layers) {
    shapes.push_back({.num_kv_heads = layer.num_kv_heads,
                      .key_dim = layer.key_dim,
                      .value_dim = layer.value_dim,
                      .window = layer.window});
  }
  return shapes;
}

}  // namespace quire
