// Loads: what requests arrive, when, and how long they are. Data, made from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class Tokenizer;

enum class LoadKind : uint8_t {
  // Independent prompts; lengths as in the ShareGPT conversations, after Kwon et al.: "Efficient
  // Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023), drawn from
  // lognormal distributions with the paper's means.
  kShareGpt,
  kSharedPrefix,  // prompts that begin alike
  kMultiTurn,     // conversations: a turn repeats everything before it
};
std::optional<LoadKind> ParseLoadKind(std::string_view name);
std::string_view NameOf(LoadKind kind);

struct LoadShape {
  LoadKind kind = LoadKind::kShareGpt;
  int num_prompts = 64;     // requests in all; turns count
  double request_rate = 0;  // arrivals a second, a Poisson process; 0 = all at once
  uint64_t seed = 0;
  int max_total_tokens = 2048;  // of a request, prompt and output

  // kShareGpt
  double mean_input_tokens = 161;
  double mean_output_tokens = 338;
  double sigma = 1.0;  // of the logarithm of either length

  // kSharedPrefix, kMultiTurn
  int prefix_tokens = 1024;  // that all prompts (all conversations) begin with
  int input_tokens = 64;     // of a prompt's own tail, or of a turn
  int output_tokens = 64;
  int turns = 4;  // of a conversation
};

// A request, or one turn of a conversation.
struct LoadRequest {
  double arrival_ms = 0;          // since the start; of a later turn: unused
  std::vector<int32_t> prompt{};  // of a later turn: what it adds
  int output_tokens = 1;          // sampled, whatever they are
  int follows = -1;  // the turn before, whose prompt and answer come first; it arrives as that ends
};

// Requests in order of arrival; a turn comes after the one it follows. Token ids are drawn from
// `vocabulary`. kInvalidArgument, with the numbers, where a request would exceed max_total_tokens.
Result<std::vector<LoadRequest>> MakeLoad(const LoadShape& shape,
                                          std::span<const int32_t> vocabulary);

// Ids of ordinary text: no control, unknown, unused or byte tokens.
std::vector<int32_t> PlainTokens(const Tokenizer& tokenizer);

// `count` ids, uniformly drawn.
std::vector<int32_t> RandomTokens(uint64_t seed, uint32_t stream, int count,
                                  std::span<const int32_t> vocabulary);

}  // namespace quire
