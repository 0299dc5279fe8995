// A prompt's text to token ids, with the ids of earlier answers where it repeats them.
#pragma once

#include "engine/answer_index.h"

namespace quire {

// The ids of all pieces, special tokens in front as the model wants them. Where the index knows a
// beginning, its ids are taken, and the rest is tokenized by itself; so the ids may differ from the
// tokenizer's for the same text, and decode to the same text.
std::vector<int32_t> EncodePrompt(const Tokenizer& tokenizer, const AnswerIndex* index,
                                  const Digest& root, std::span<const PromptPiece> pieces);

}  // namespace quire
