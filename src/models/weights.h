// The weights of a model as the decoder reads them: views into packed memory.
#pragma once

#include <vector>

#include "models/weight_plan.h"
#include "tensor/packed_matrix.h"

namespace quire {

// Vectors are null where the model has none; matrices have null data.
struct LayerWeights {
  const float* attention_norm = nullptr;       // [d_model]
  const float* attention_norm_bias = nullptr;  // [d_model]
  PackedMatrix query;                          // [num_heads * key_dim, d_model]
  PackedMatrix key;                            // [num_kv_heads * key_dim, d_model]
  PackedMatrix value;                          // [num_kv_heads * value_dim, d_model]
  const float* query_bias = nullptr;
  const float* key_bias = nullptr;
  const float* value_bias = nullptr;
  const float* query_norm = nullptr;  // [key_dim]
  const float* key_norm = nullptr;    // [key_dim]
  PackedMatrix attention_output;      // [d_model, num_heads * value_dim]
  const float* attention_output_bias = nullptr;
  const float* attention_post_norm = nullptr;  // [d_model]
  const float* ffn_norm = nullptr;             // [d_model]
  const float* ffn_norm_bias = nullptr;
  PackedMatrix ffn_gate;  // [ffn_dim, d_model]
  PackedMatrix ffn_up;    // [ffn_dim, d_model]
  const float* ffn_up_bias = nullptr;
  PackedMatrix ffn_down;  // [d_model, ffn_dim]
  const float* ffn_down_bias = nullptr;
  const float* ffn_post_norm = nullptr;  // [d_model]
};

struct Weights {
  PackedMatrix token_embedding;     // [vocab_size, d_model]
  PackedMatrix position_embedding;  // [context_length, d_model]
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;
  const float* output_norm_bias = nullptr;
  PackedMatrix output;  // [vocab_size, d_model]; the token embedding where tied
  const float* output_bias = nullptr;
};

// Views of packed memory by the plan it was packed after. The memory outlives the weights.
Weights BindWeights(const WeightPlan& plan, int num_layers, const std::byte* packed);

}  // namespace quire
