// The tensors of a model as a plan sees them: what they are for, their sizes, and the bytes they
// take in memory. From a file's header, or from the sizes of a published configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/weight_plan.h"

namespace quire {

struct ParameterTraits;

struct ModelTensor {
  WeightRole role = WeightRole::kTokenEmbedding;
  int layer = -1;          // -1 = of the whole model
  std::string type{};      // as in "Q4_K"; without a file "16-bit"; empty = not known
  bool is_matrix = false;  // multiplied with, or a table of rows
  bool is_quantized = false;
  int64_t num_rows = 0;  // outputs; 1 for a vector
  int64_t num_cols = 0;  // inputs
  uint64_t bytes = 0;    // in memory; 0 = not known

  uint64_t parameters() const {
    return static_cast<uint64_t>(num_rows) * static_cast<uint64_t>(num_cols);
  }
};

// In the order of a forward pass, the output layer last; none for it where it is the embedding.
std::vector<ModelTensor> TensorsOfPlan(const WeightPlan& plan);

// Those of a dense decoder, bytes and types not known; none where a size is not known. Together
// they have DenseParameters.
std::vector<ModelTensor> TensorsOfTraits(const ModelConfig& config, const ParameterTraits& traits);

// Each of so many bits a parameter.
void SetTensorBits(std::vector<ModelTensor>& tensors, double bits);

}  // namespace quire
