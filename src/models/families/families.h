// The model families, a small file each, and what their readers share.
#pragma once

#include <string>

#include "base/result.h"
#include "models/config.h"

namespace quire {

class GgufFile;

Result<ModelConfig> ReadLlamaConfig(const GgufFile& file);
Result<ModelConfig> ReadQwen2Config(const GgufFile& file);
Result<ModelConfig> ReadQwen3Config(const GgufFile& file);
Result<ModelConfig> ReadGemma3Config(const GgufFile& file);
Result<ModelConfig> ReadClassicConfig(const GgufFile& file);

// "llama.block_count" for the file's architecture.
Result<std::string> ArchitectureKey(const GgufFile& file, std::string_view suffix);

// A size from the file: 1..2^31 - 1, refused by key otherwise.
Result<int> GetSize(const GgufFile& file, std::string_view suffix);

// The epsilon of the norms: positive, below 1.
Result<float> GetNormEpsilon(const GgufFile& file, std::string_view suffix);

// The base of the rope's frequencies: above 1, below 1e12.
Result<double> GetRopeBase(const GgufFile& file, std::string_view suffix, double fallback);

// What every decoder-only family has under the same keys: sizes, layers with heads, key and value
// dimensions and feed-forward widths, vocabulary and context. One full-attention layer kind.
Result<ModelConfig> ReadCommonConfig(const GgufFile& file);

// The one rope of ReadCommonConfig's layers, with linear and llama3 scaling where the file has it.
Result<RopeConfig> ReadRope(const GgufFile& file, RopeStyle style, int key_dim);

}  // namespace quire
