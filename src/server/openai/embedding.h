// Bodies of /v1/embeddings, both ways.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/openai/prompts.h"
#include "server/openai/request.h"
#include "server/openai/response.h"

namespace quire {

struct EmbeddingRequest {
  std::string model{};  // empty = absent
  // At least one.
  std::vector<OpenAiPrompt> inputs{};
  Pooling pooling = Pooling::kMean;
  bool as_base64 = false;                       // encoding_format
  std::optional<int64_t> dimensions{};          // must be the model's own
  std::optional<int> truncate_prompt_tokens{};  // the last so many of each input; -1 = that fit
  bool add_special_tokens = true;
  int priority = 0;
  std::string cache_salt{};
  std::vector<std::string> ignored{};  // members that nobody knows, fit for printing
};

std::variant<EmbeddingRequest, ApiError> ParseEmbeddingRequest(std::string_view text,
                                                               const OpenAiLimits& limits = {});

// One request an input. Refuses dimensions that are not the model's.
std::variant<std::vector<EngineRequest>, ApiError> EngineRequestsOf(const EmbeddingRequest& body,
                                                                    const PromptSource& source);

// results: one an input, in order; floats, or the base64 of little-endian 32-bit floats.
std::string EmbeddingBody(const EmbeddingRequest& body, std::span<const RequestResult> results,
                          const ResponseHead& head);

}  // namespace quire
