#include "engine/generation.h"

#include <optional>

namespace quire {

Result<RequestResult> Generate(Engine& engine, Request request, const GenerationHooks& hooks) {
  std::optional<RequestResult> result;
  RequestHooks request_hooks{
      .on_finish = [&result](RequestResult finished) { result = std::move(finished); }};
  if (hooks.on_text) {
    request_hooks.on_piece = [&hooks](const AnswerPiece& piece) {
      if (piece.choice == 0 && !piece.text.empty()) hooks.on_text(piece.text);
    };
  }
  QUIRE_ASSIGN_OR_RETURN(const RequestId id,
                         engine.Submit(std::move(request), std::move(request_hooks)));
  while (!result) {
    if (hooks.interrupted && hooks.interrupted()) {
      engine.Abort(id);
    } else {
      engine.Step();
    }
  }
  if (!result->status.ok()) return result->status.error();
  return std::move(*result);
}

}  // namespace quire
