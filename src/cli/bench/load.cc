#include "cli/bench/load.h"

#include <algorithm>
#include <array>

#include "cli/bench/random_stream.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

// Streams of the seed. Tokens of request i come from stream kTokens + i.
constexpr uint32_t kLengths = 0;
constexpr uint32_t kArrivals = 1;
constexpr uint32_t kPrefix = 2;
constexpr uint32_t kTokens = 16;

constexpr std::array<std::string_view, 3> kNames = {"sharegpt", "shared-prefix", "multi-turn"};

int LengthIn(double drawn, int lowest, int highest) {
  return std::clamp(static_cast<int>(std::min(drawn, 1e9)), lowest, highest);
}

Status Check(const LoadShape& shape, std::span<const int32_t> vocabulary) {
  if (vocabulary.empty()) {
    return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
  }
  if (shape.kind == LoadKind::kShareGpt) {
    if (shape.max_total_tokens >= 2) return {};
    return MakeError(ErrorCode::kInvalidArgument,
                     "at most {} tokens a request; a prompt and an answer are at least 2",
                     shape.max_total_tokens);
  }
  const int64_t turns = shape.kind == LoadKind::kMultiTurn ? shape.turns : 1;
  const int64_t longest = shape.prefix_tokens +
                          turns * (static_cast<int64_t>(shape.input_tokens) + shape.output_tokens);
  if (longest <= shape.max_total_tokens) return {};
  return MakeError(
      ErrorCode::kInvalidArgument,
      "the load's longest request has {} tokens ({} of prefix, {} x ({} in + {} out)); "
      "the context allows {}",
      longest, shape.prefix_tokens, turns, shape.input_tokens, shape.output_tokens,
      shape.max_total_tokens);
}

std::vector<int32_t> TokensOf(const LoadShape& shape, int request, int count,
                              std::span<const int32_t> vocabulary) {
  return RandomTokens(shape.seed, kTokens + static_cast<uint32_t>(request), count, vocabulary);
}

std::vector<LoadRequest> ShareGpt(const LoadShape& shape, std::span<const int32_t> vocabulary) {
  RandomStream lengths(shape.seed, kLengths);
  std::vector<LoadRequest> load(shape.num_prompts);
  for (int i = 0; i < shape.num_prompts; ++i) {
    const int input = LengthIn(lengths.LogNormal(shape.mean_input_tokens, shape.sigma), 1,
                               shape.max_total_tokens - 1);
    load[i].prompt = TokensOf(shape, i, input, vocabulary);
    load[i].output_tokens = LengthIn(lengths.LogNormal(shape.mean_output_tokens, shape.sigma), 1,
                                     shape.max_total_tokens - input);
  }
  return load;
}

std::vector<LoadRequest> WithPrefix(const LoadShape& shape, std::span<const int32_t> vocabulary) {
  const std::vector<int32_t> prefix =
      RandomTokens(shape.seed, kPrefix, shape.prefix_tokens, vocabulary);
  const int turns = shape.kind == LoadKind::kMultiTurn ? shape.turns : 1;
  std::vector<LoadRequest> load(shape.num_prompts);
  // The first turns of all conversations come first: request i's next turn is i + conversations.
  const int conversations = (shape.num_prompts + turns - 1) / turns;
  for (int i = 0; i < shape.num_prompts; ++i) {
    LoadRequest& request = load[i];
    if (i < conversations) {
      request.prompt = prefix;
    } else {
      request.follows = i - conversations;
    }
    const std::vector<int32_t> tail = TokensOf(shape, i, shape.input_tokens, vocabulary);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.output_tokens = shape.output_tokens;
  }
  return load;
}

}  // namespace

std::optional<LoadKind> ParseLoadKind(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<LoadKind>(at - kNames.begin());
}

std::string_view NameOf(LoadKind kind) { return kNames[static_cast<size_t>(kind)]; }

Result<std::vector<LoadRequest>> MakeLoad(const LoadShape& shape,
                                          std::span<const int32_t> vocabulary) {
  QUIRE_RETURN_IF_ERROR(Check(shape, vocabulary));
  std::vector<LoadRequest> load = shape.kind == LoadKind::kShareGpt ? ShareGpt(shape, vocabulary)
                                                                    : WithPrefix(shape, vocabulary);
  if (shape.request_rate > 0) {
    RandomStream arrivals(shape.seed, kArrivals);
    double now_ms = 0;
    for (LoadRequest& request : load) {
      if (request.follows >= 0) continue;
      request.arrival_ms = now_ms;
      now_ms += 1000 * arrivals.Exponential(shape.request_rate);
    }
  }
  return load;
}

std::vector<int32_t> PlainTokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> plain;
  for (TokenId id = 0; id < tokenizer.num_tokens(); ++id) {
    if (tokenizer.Kind(id) == TokenKind::kNormal) plain.push_back(id);
  }
  return plain;
}

std::vector<int32_t> RandomTokens(uint64_t seed, uint32_t stream, int count,
                                  std::span<const int32_t> vocabulary) {
  RandomStream random(seed, stream);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = vocabulary[random.Below(static_cast<int>(vocabulary.size()))];
  }
  return tokens;
}

}  // namespace quire
