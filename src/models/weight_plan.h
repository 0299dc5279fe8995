// Which tensors a model has, their shapes, and where each lies in packed memory.
//
// The plan follows the configuration and is checked against the file: a missing tensor, a wrong
// shape or a tensor that the architecture does not have is an error that names it. Nothing is ever
// skipped in silence.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "models/config.h"
#include "tensor/dtype.h"

namespace quire {

class GgufFile;
struct GgufTensor;

// What a tensor does in a layer (or once in the model).
enum class WeightRole : uint8_t {
  kTokenEmbedding,
  kPositionEmbedding,
  kAttentionNorm,
  kAttentionNormBias,
  kQuery,
  kQueryBias,
  kQueryNorm,
  kKey,
  kKeyBias,
  kKeyNorm,
  kValue,
  kValueBias,
  kAttentionOutput,
  kAttentionOutputBias,
  kAttentionPostNorm,
  kFfnNorm,
  kFfnNormBias,
  kFfnGate,
  kFfnUp,
  kFfnUpBias,
  kFfnDown,
  kFfnDownBias,
  kFfnPostNorm,
  kOutputNorm,
  kOutputNormBias,
  kOutput,
  kOutputBias,
};

struct PlannedWeight {
  WeightRole role;
  int layer = -1;  // -1: of the whole model
  std::string name;
  bool is_matrix = false;
  DType dtype = DType::kF32;  // of the file; vectors are widened to F32 in memory
  int num_rows = 0;           // 1 for a vector
  int num_cols = 0;
  const GgufTensor* source = nullptr;  // lives in the file
  size_t offset = 0;                   // bytes from the start of packed memory, 64-byte aligned
  size_t packed_bytes = 0;
};

struct WeightPlan {
  std::vector<PlannedWeight> weights;  // in the order in which a step reads them
  size_t packed_bytes = 0;
};

// The file outlives the plan.
Result<WeightPlan> PlanWeights(const GgufFile& file, const ModelConfig& config);

}  // namespace quire
