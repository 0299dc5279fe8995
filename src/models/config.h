// What a transformer is, apart from its weights: the differences between model families as data.
//
// A family (src/models/families) reads a file's metadata into this; the decoder reads nothing else.
// Sizes are per layer where files have them per layer, and read, never derived.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "kernels/kernel_set.h"

namespace quire {

class GgufFile;

enum class NormKind : uint8_t { kRms, kLayer };

// Where a block normalises, f being attention or the feed-forward network.
enum class NormPlacement : uint8_t {
  kBefore,          // x + f(norm(x))
  kBeforeAndAfter,  // x + norm'(f(norm(x)))
  kAfterResidual,   // norm(x + f(x))
};

enum class Activation : uint8_t { kSilu, kGelu, kRelu };

// How rotary positions turn pairs of a head. Frequency of pair i, in radians a position:
//   base^(-2 i / rotary_dim) / linear_factor / divisors[i]
struct RopeConfig {
  RopeStyle style = RopeStyle::kHalves;
  double base = 10000;
  int rotary_dim = 0;
  double linear_factor = 1;
  std::vector<float> divisors{};  // [rotary_dim / 2], or empty for ones

  std::vector<double> Frequencies() const;  // [rotary_dim / 2]
};

struct LayerConfig {
  int num_heads = 0;
  int num_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int ffn_dim = 0;
  int window = 0;  // keys attended, the token itself included; 0 = all
  int rope = 0;    // index into ModelConfig::ropes
};

struct ModelConfig {
  std::string architecture;
  std::string name;
  int d_model = 0;
  int vocab_size = 0;      // rows of the token embedding and of the logits
  int context_length = 0;  // tokens the model was made for
  std::vector<LayerConfig> layers;
  std::vector<RopeConfig> ropes;

  NormKind norm = NormKind::kRms;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 1e-5f;
  bool final_norm = true;
  bool query_key_norm = false;     // RMS norm of each head of q and k, before rope
  bool learned_positions = false;  // a position embedding is added; no rope
  bool gated_ffn = true;           // down(act(gate(x)) * up(x)); otherwise down(act(up(x)))
  Activation activation = Activation::kSilu;
  float embedding_scale = 1;  // factor on token embeddings
  float attention_scale = 0;  // factor on queries; 0 = 1 / sqrt(key_dim)

  int num_layers() const { return static_cast<int>(layers.size()); }
};

// Of everything in the configuration that keys and values depend on: part of the KV fingerprint.
// Names and the context that the model was made for are not among it.
Digest ArchitectureDigest(const ModelConfig& config);

// One model family: how its files are read.
struct Family {
  std::string_view architecture;  // general.architecture
  Result<ModelConfig> (*read_config)(const GgufFile& file);
};

std::span<const Family> Families();

// Reads the configuration of a file and checks it. An architecture that Quire does not know is
// kUnsupported, by name, with the list of those it knows.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace quire
