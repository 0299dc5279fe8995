#include "engine/prompt_encoder.h"

#include <utility>

namespace quire {
namespace {

// The pieces from byte `offset` of their joint text on.
std::vector<PromptPiece> PiecesFrom(std::span<const PromptPiece> pieces, size_t offset) {
  std::vector<PromptPiece> rest;
  for (const PromptPiece& piece : pieces) {
    if (offset >= piece.text.size()) {
      offset -= piece.text.size();
      continue;
    }
    rest.push_back({piece.text.substr(offset), piece.from_template});
    offset = 0;
  }
  return rest;
}

}  // namespace

std::vector<int32_t> EncodePrompt(const Tokenizer& tokenizer, const AnswerIndex* index,
                                  const Digest& root, std::span<const PromptPiece> pieces) {
  std::optional<KnownBeginning> known;
  if (index != nullptr) known = index->Find(root, pieces);
  if (!known) return tokenizer.EncodePieces(pieces, /*add_special=*/true);
  std::vector<int32_t> ids = std::move(known->ids);
  // An answer's known part ends in plain text, so no token goes in front of what follows it.
  const std::vector<int32_t> rest = tokenizer.EncodeRest(PiecesFrom(pieces, known->num_bytes));
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

}  // namespace quire
