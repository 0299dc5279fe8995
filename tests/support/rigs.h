// Tiny models whose logits are known by heart (one llama layer, F32, a vocabulary of the test's
// choice).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quire::testing {

struct RigToken {
  std::string text;
  bool control = false;
};

// Token 0 is the end-of-text token in both rigs' tests by convention; `tokens` names all of them.
//
// Markov: the logits after token i are exactly logits[i], whatever came before: the residual stream
// is the one-hot vector of the last token, attention and feed-forward weights are zero.
// logits [tokens][rows], rows >= tokens.
void WriteMarkovModel(const std::filesystem::path& path, const std::vector<RigToken>& tokens,
                      const std::vector<std::vector<float>>& logits,
                      const std::string& chat_template = "");

// Count: uniform attention over one-hot embeddings, so that the logit of token j is about
// 10 * c_j / |c|, c being the counts of each token among the positions attended.
// dim is the number of tokens and the width, a multiple of 2.
void WriteCountModel(const std::filesystem::path& path, int dim, int context_length);

}  // namespace quire::testing
