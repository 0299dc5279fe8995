// A Hugging Face `config.json`: what a transformer is, from untrusted JSON to a checked plain
// struct.
//
// Families name the same sizes differently (LLaMA, Qwen, Gemma and Mistral: num_hidden_layers,
// hidden_size, num_attention_heads, num_key_value_heads; GPT-2 and its children: n_layer, n_embd,
// n_head, multi_query). Every accepted name has one meaning. Nothing is guessed:
//   1. A size that the cache depends on (layers, heads, width) is there under an accepted name, or
//      the file is refused with the list of accepted names.
//   2. Where the number of key heads has no accepted name, any other key that seems to speak of key
//      heads or groups ("num_kv_groups") refuses the file: a count and a size of groups look alike,
//      and a wrong reading is off by the number of heads. Without such a key every head has its
//      own.
//   3. Layers that keep something other than keys and values of every head (latent attention, state
//      spaces, shared caches) are kUnsupported.
// null is the same as absent. Pure functions, any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Sizes are at least 1, unless 0 says that the file does not give them.
struct HfConfig {
  std::string model_type{};
  int num_layers = 0;
  int d_model = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int ffn_dim = 0;             // of one matrix; 0 = not given
  int vocab_size = 0;          // 0 = not given
  int context_length = 0;      // tokens; 0 = not given
  int num_experts = 0;         // 0 = a dense model
  int weight_bits = 0;         // of the checkpoint's element type; 0 = not given, or quantised
  std::vector<int> windows{};  // [num_layers] keys attended, the token itself included; 0 = all
  bool tied_embeddings = false;
  bool gated_ffn = true;
  bool query_key_value_bias = false;
  bool query_key_norm = false;
  bool post_norms = false;         // norms after each half of a block too (Gemma 2 and 3)
  bool layer_norm = false;         // GPT-2: LayerNorm, and biases on every matrix
  bool learned_positions = false;  // GPT-2: an embedding a position
};

// Larger files are refused: published ones have a few KiB.
inline constexpr size_t kMaxHfConfigBytes = size_t{1} << 20;

// `where` names the text in messages. kCorrupt for what is not such a file, kUnsupported for what
// is well-formed and not understood, naming the key.
Result<HfConfig> ParseHfConfig(std::string_view text, std::string_view where);

// Reads a file, or `config.json` in a directory.
Result<HfConfig> ReadHfConfig(const std::filesystem::path& path);

}  // namespace quire
