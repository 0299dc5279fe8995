#include "support/tiny_llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "kernels/random_weights.h"
#include "tensor/dequantize.h"
#include "tensor/float16.h"

namespace quire::testing {
namespace {

constexpr double kRopeBase = 10000;
constexpr float kEpsilon = 1e-5f;

// y = W x for W [rows, cols].
std::vector<double> Multiply(const TinyTensor& matrix, const std::vector<double>& x) {
  const std::vector<float> w = matrix.Values();
  std::vector<double> y(matrix.dimensions[1]);
  for (size_t row = 0; row < y.size(); ++row) {
    for (size_t col = 0; col < x.size(); ++col) y[row] += double{w[row * x.size() + col]} * x[col];
  }
  return y;
}

std::vector<double> RmsNorm(const TinyTensor& weight, const std::vector<double>& x) {
  const std::vector<float> w = weight.Values();
  double square = 0;
  for (const double value : x) square += value * value;
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / std::sqrt(square / static_cast<double>(x.size()) + kEpsilon) * w[i];
  }
  return y;
}

// Interleaved pairs of each head.
void Rotate(std::vector<double>& heads, int head_dim, int position) {
  for (size_t i = 0; i + 1 < heads.size(); i += 2) {
    const auto pair = static_cast<double>(i % static_cast<size_t>(head_dim));
    const double angle = position * std::pow(kRopeBase, -pair / head_dim);
    const double a = heads[i];
    const double b = heads[i + 1];
    heads[i] = a * std::cos(angle) - b * std::sin(angle);
    heads[i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

void AddTo(std::vector<double>& x, const std::vector<double>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Attention of one query row over all keys and values so far.
std::vector<double> Attend(const TinyShape& shape, const TinyLayer& layer,
                           const std::vector<double>& query,
                           const std::vector<std::vector<double>>& keys,
                           const std::vector<std::vector<double>>& values) {
  std::vector<double> out(static_cast<size_t>(layer.num_heads) * shape.value_dim);
  for (int head = 0; head < layer.num_heads; ++head) {
    const int kv_head = head / (layer.num_heads / layer.num_kv_heads);
    std::vector<double> weights;
    for (const std::vector<double>& key : keys) {
      double score = 0;
      for (int d = 0; d < shape.key_dim; ++d) {
        score += query[head * shape.key_dim + d] * key[kv_head * shape.key_dim + d];
      }
      weights.push_back(score / std::sqrt(shape.key_dim));
    }
    const double maximum = std::ranges::max(weights);
    double sum = 0;
    for (double& weight : weights) {
      weight = std::exp(weight - maximum);
      sum += weight;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      for (int d = 0; d < shape.value_dim; ++d) {
        out[head * shape.value_dim + d] +=
            weights[i] / sum * values[i][kv_head * shape.value_dim + d];
      }
    }
  }
  return out;
}

// Random floats are drawn with a deviation of one.
void ScaleFloats(TinyTensor& tensor, float factor) {
  const std::vector<float> values = tensor.Values();
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i] * factor;
    const uint16_t half = tensor.dtype == DType::kF16
                              ? F32ToF16(value)
                              : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    if (tensor.dtype == DType::kF32) {
      tensor.SetValue(i, value);
    } else {
      std::memcpy(tensor.bytes.data() + i * sizeof(half), &half, sizeof(half));
    }
  }
}

// The halves of a block that scale it.
std::vector<size_t> HalvesOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// Brings a random quantised matrix to a deviation, as trained ones have it: otherwise the largest
// score takes all of the attention, and rounding decides which one that is.
void ScaleBlocks(TinyTensor& tensor, double deviation) {
  double square = 0;
  const std::vector<float> values = tensor.Values();
  for (const float value : values) square += double{value} * value;
  const double factor = deviation / std::sqrt(square / static_cast<double>(values.size()));
  for (size_t at = 0; at < tensor.bytes.size(); at += InfoOf(tensor.dtype).block_bytes) {
    for (const size_t offset : HalvesOf(tensor.dtype)) {
      uint16_t half = 0;
      std::memcpy(&half, tensor.bytes.data() + at + offset, sizeof(half));
      half = F32ToF16(static_cast<float>(F16ToF32(half) * factor));
      std::memcpy(tensor.bytes.data() + at + offset, &half, sizeof(half));
    }
  }
}

}  // namespace

std::vector<float> TinyTensor::Values() const {
  size_t count = 1;
  for (const uint64_t dimension : dimensions) count *= dimension;
  std::vector<float> values(count);
  DequantizeRow(dtype, reinterpret_cast<const std::byte*>(bytes.data()), count, values.data());
  return values;
}

void TinyTensor::SetValue(size_t idx, float value) {
  if (dtype != DType::kF32) throw std::logic_error(name);
  std::memcpy(bytes.data() + idx * sizeof(value), &value, sizeof(value));
}

TinyLlama::TinyLlama(const TinyShape& shape) : shape_(shape) {
  std::vector<uint32_t> heads, kv_heads, ffn_dims;
  for (const TinyLayer& layer : shape.layers) {
    heads.push_back(layer.num_heads);
    kv_heads.push_back(layer.num_kv_heads);
    ffn_dims.push_back(layer.ffn_dim);
  }
  SetString("general.architecture", "llama");
  SetString("general.name", "tiny");
  Set("llama.block_count", static_cast<uint32_t>(shape.layers.size()));
  Set("llama.embedding_length", static_cast<uint32_t>(shape.d_model));
  Set("llama.context_length", static_cast<uint32_t>(shape.context_length));
  SetList("llama.attention.head_count", heads);
  SetList("llama.attention.head_count_kv", kv_heads);
  SetList("llama.feed_forward_length", ffn_dims);
  if (shape.names_head_dims) {
    Set("llama.attention.key_length", static_cast<uint32_t>(shape.key_dim));
    Set("llama.attention.value_length", static_cast<uint32_t>(shape.value_dim));
  }
  Set("llama.attention.layer_norm_rms_epsilon", kEpsilon);
  std::vector<std::string> tokens;
  for (int i = 0; i < shape.num_tokens; ++i) tokens.push_back(fmt::format("t{}", i));
  SetString("tokenizer.ggml.model", "gpt2");
  SetString("tokenizer.ggml.pre", "gpt-2");
  Put("tokenizer.ggml.tokens",
      [tokens](GgufWriter& writer) { writer.AddStrings("tokenizer.ggml.tokens", tokens); });
  Put("tokenizer.ggml.merges",
      [](GgufWriter& writer) { writer.AddStrings("tokenizer.ggml.merges", {}); });
  SetList("tokenizer.ggml.token_type", std::vector<int32_t>(shape.num_tokens, 1));
  Set("tokenizer.ggml.eos_token_id", uint32_t{0});
  Set("tokenizer.ggml.add_bos_token", false);

  std::mt19937 random(shape.seed);
  const auto matrix = [&](const std::string& name, int rows, int cols) {
    const auto bytes = RandomFileRows(shape.matrices, rows, cols, Scales::kTame, random);
    tensors_.push_back({name,
                        shape.matrices,
                        {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)},
                        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
    const float deviation = 1 / std::sqrt(static_cast<float>(cols));
    if (IsQuantized(shape.matrices)) {
      ScaleBlocks(tensors_.back(), deviation);
    } else {
      ScaleFloats(tensors_.back(), deviation);
    }
  };
  const auto norm = [&](const std::string& name) {
    tensors_.push_back({name, DType::kF32, {static_cast<uint64_t>(shape.d_model)}, {}});
    tensors_.back().bytes.resize(shape.d_model * sizeof(float));
    for (int i = 0; i < shape.d_model; ++i) {
      tensors_.back().SetValue(i, 0.5f + static_cast<float>(random() % 1000) / 1000.0f);
    }
  };
  const int d = shape.d_model;
  matrix("token_embd.weight", shape.vocab_size, d);
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const TinyLayer& layer = shape.layers[i];
    const std::string prefix = fmt::format("blk.{}.", i);
    norm(prefix + "attn_norm.weight");
    matrix(prefix + "attn_q.weight", layer.num_heads * shape.key_dim, d);
    matrix(prefix + "attn_k.weight", layer.num_kv_heads * shape.key_dim, d);
    matrix(prefix + "attn_v.weight", layer.num_kv_heads * shape.value_dim, d);
    matrix(prefix + "attn_output.weight", d, layer.num_heads * shape.value_dim);
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "ffn_gate.weight", layer.ffn_dim, d);
    matrix(prefix + "ffn_up.weight", layer.ffn_dim, d);
    matrix(prefix + "ffn_down.weight", d, layer.ffn_dim);
  }
  norm("output_norm.weight");
  if (!shape.tied) matrix("output.weight", shape.vocab_size, d);
}

void TinyLlama::SetString(const std::string& key, const std::string& value) {
  Put(key, [key, value](GgufWriter& writer) { writer.AddString(key, value); });
}

void TinyLlama::Put(const std::string& key, std::function<void(GgufWriter&)> add) {
  const auto it = std::ranges::find(keys_, key, [](const auto& entry) { return entry.first; });
  if (it != keys_.end()) {
    it->second = std::move(add);
  } else {
    keys_.emplace_back(key, std::move(add));
  }
}

void TinyLlama::RemoveKey(const std::string& key) {
  std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
}

void TinyLlama::RemoveTensor(const std::string& name) {
  std::erase_if(tensors_, [&](const TinyTensor& tensor) { return tensor.name == name; });
}

const TinyTensor& TinyLlama::Find(const std::string& name) const {
  const auto it = std::ranges::find(tensors_, name, &TinyTensor::name);
  if (it == tensors_.end()) throw std::logic_error("no tensor " + name);
  return *it;
}

TinyTensor& TinyLlama::tensor(const std::string& name) {
  return const_cast<TinyTensor&>(Find(name));
}

TinyLlama TinyLlama::Widened() const {
  TinyLlama widened = *this;
  for (TinyTensor& tensor : widened.tensors_) {
    const std::vector<float> values = tensor.Values();
    tensor.dtype = DType::kF32;
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()),
                        values.size() * sizeof(float));
  }
  return widened;
}

std::string TinyLlama::Bytes() const {
  GgufWriter writer;
  for (const auto& [key, add] : keys_) add(writer);
  for (const TinyTensor& tensor : tensors_) {
    writer.AddTensor(tensor.name, static_cast<uint32_t>(tensor.dtype), tensor.dimensions,
                     tensor.bytes);
  }
  return writer.Bytes();
}

bool TinyLlama::Write(const std::filesystem::path& path) const { return WriteBytes(path, Bytes()); }

bool TinyLlama::WriteSplit(const std::filesystem::path& directory, const std::string& name,
                           int num_parts) const {
  for (int part = 0; part < num_parts; ++part) {
    GgufWriter writer;
    if (part == 0) {
      for (const auto& [key, add] : keys_) add(writer);
    }
    AddSplitKeys(writer, static_cast<uint16_t>(part), static_cast<uint16_t>(num_parts),
                 static_cast<int32_t>(tensors_.size()));
    const size_t first = tensors_.size() * part / num_parts;
    const size_t last = tensors_.size() * (part + 1) / num_parts;
    for (size_t i = first; i < last; ++i) {
      writer.AddTensor(tensors_[i].name, static_cast<uint32_t>(tensors_[i].dtype),
                       tensors_[i].dimensions, tensors_[i].bytes);
    }
    if (!writer.Write(directory /
                      fmt::format("{}-{:05}-of-{:05}.gguf", name, part + 1, num_parts))) {
      return false;
    }
  }
  return true;
}

std::vector<double> TinyLlama::Logits(std::span<const int32_t> tokens) const {
  const auto size = static_cast<size_t>(shape_.d_model);
  const std::vector<float> embedding = Find("token_embd.weight").Values();
  std::vector<std::vector<std::vector<double>>> keys(shape_.layers.size());
  std::vector<std::vector<std::vector<double>>> values(shape_.layers.size());
  std::vector<double> logits;
  for (size_t position = 0; position < tokens.size(); ++position) {
    std::vector<double> x(size);
    for (size_t i = 0; i < size; ++i) x[i] = embedding[tokens[position] * size + i];
    for (size_t i = 0; i < shape_.layers.size(); ++i) {
      const TinyLayer& layer = shape_.layers[i];
      const auto weight = [&](const char* suffix) -> const TinyTensor& {
        return Find(fmt::format("blk.{}.{}.weight", i, suffix));
      };
      std::vector<double> normed = RmsNorm(weight("attn_norm"), x);
      std::vector<double> query = Multiply(weight("attn_q"), normed);
      std::vector<double> key = Multiply(weight("attn_k"), normed);
      Rotate(query, shape_.key_dim, static_cast<int>(position));
      Rotate(key, shape_.key_dim, static_cast<int>(position));
      keys[i].push_back(key);
      values[i].push_back(Multiply(weight("attn_v"), normed));
      AddTo(x, Multiply(weight("attn_output"), Attend(shape_, layer, query, keys[i], values[i])));
      normed = RmsNorm(weight("ffn_norm"), x);
      std::vector<double> gate = Multiply(weight("ffn_gate"), normed);
      const std::vector<double> up = Multiply(weight("ffn_up"), normed);
      for (size_t j = 0; j < gate.size(); ++j) gate[j] = gate[j] / (1 + std::exp(-gate[j])) * up[j];
      AddTo(x, Multiply(weight("ffn_down"), gate));
    }
    const std::vector<double> row =
        Multiply(Find(shape_.tied ? "token_embd.weight" : "output.weight"),
                 RmsNorm(Find("output_norm.weight"), x));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

}  // namespace quire::testing
