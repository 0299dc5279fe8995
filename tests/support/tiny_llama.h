// Random llama models of any small shape and weight format, and what they compute, in double
// precision and by an independent road.
//
//   TinyLlama model({.layers = {{.num_heads = 4, .num_kv_heads = 2}}});
//   model.Set("llama.rope.freq_base", 500000.0f);
//   ASSERT_TRUE(model.Write(path));
//   model.Logits({1, 2, 3});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/gguf_writer.h"
#include "tensor/dtype.h"

namespace quire::testing {

struct TinyLayer {
  int num_heads = 4;
  int num_kv_heads = 2;
  int ffn_dim = 64;
};

struct TinyShape {
  std::vector<TinyLayer> layers{TinyLayer{}, TinyLayer{}};
  int d_model = 64;
  int key_dim = 16;
  int value_dim = 16;
  bool names_head_dims = true;  // off: key_length and value_length are not in the file
  int vocab_size = 64;          // rows of the embedding
  int num_tokens = 64;          // of the tokenizer
  int context_length = 256;
  bool tied = false;
  DType matrices = DType::kF32;
  uint32_t seed = 1;
};

struct TinyTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> dimensions;  // innermost first
  std::string bytes;

  std::vector<float> Values() const;
  void SetValue(size_t idx, float value);  // of an F32 tensor
};

class TinyLlama {
 public:
  explicit TinyLlama(const TinyShape& shape);

  // Adds a key or takes the place of one.
  template <GgufNumber T>
  void Set(const std::string& key, T value) {
    Put(key, [key, value](GgufWriter& writer) { writer.Add(key, value); });
  }
  template <GgufNumber T>
  void SetList(const std::string& key, const std::vector<T>& values) {
    Put(key, [key, values](GgufWriter& writer) { writer.AddList(key, values); });
  }
  void SetString(const std::string& key, const std::string& value);
  void RemoveKey(const std::string& key);

  TinyTensor& tensor(const std::string& name);
  void AddTensor(TinyTensor tensor) { tensors_.push_back(std::move(tensor)); }
  void RemoveTensor(const std::string& name);
  std::vector<TinyTensor>& tensors() { return tensors_; }
  const TinyShape& shape() const { return shape_; }

  // The same model with every matrix widened to F32.
  TinyLlama Widened() const;

  std::string Bytes() const;
  bool Write(const std::filesystem::path& path) const;
  // NAME-0000i-of-0000n.gguf in a directory, the tensors dealt out in order.
  bool WriteSplit(const std::filesystem::path& directory, const std::string& name,
                  int num_parts) const;

  // [tokens][vocab_size] logits after each token: a plain double-precision forward of the model as
  // constructed (tensors are read anew; keys that were set afterwards are not looked at).
  std::vector<double> Logits(std::span<const int32_t> tokens) const;

 private:
  void Put(const std::string& key, std::function<void(GgufWriter&)> add);
  const TinyTensor& Find(const std::string& name) const;

  TinyShape shape_;
  std::vector<std::pair<std::string, std::function<void(GgufWriter&)>>> keys_;
  std::vector<TinyTensor> tensors_;
};

}  // namespace quire::testing
