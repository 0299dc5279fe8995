// The operations of a forward pass, by what they do: the words in which its time, its cost and its
// trace are told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

enum class DecoderOperator : uint8_t {
  kEmbed,        // placing the rows, rows of the embedding
  kNorm,         // norms, residuals, and quantising what the products read
  kProject,      // products with the matrices of attention: q, k, v and output
  kStoreKv,      // rotary positions; keys and values into their slots
  kAttend,       // scores, softmax, weighted values
  kFeedForward,  // products of the feed-forward network and its activation
  kOutput,       // the output layer's product
};
inline constexpr int kNumDecoderOperators = 7;

constexpr std::string_view NameOf(DecoderOperator operators) {
  constexpr std::array<std::string_view, kNumDecoderOperators> kNames = {
      "embed", "norm", "project", "store_kv", "attend", "feed_forward", "output"};
  return kNames[static_cast<size_t>(operators)];
}

}  // namespace quire
