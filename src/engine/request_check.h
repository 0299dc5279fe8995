// Whether a request is one that the engine can answer.
#pragma once

#include "engine/request.h"
#include "kv/layout.h"

namespace quire {

struct RequestLimits {
  int vocab_size = 0;
  int context_length = 0;  // tokens
  int max_batched_tokens = 0;
  const KvLayout* layout = nullptr;
};

// kInvalidArgument, naming the field, its range and the value; kContextLength for a prompt that
// leaves no room for an answer, with what it needs and what there is in tokens and bytes.
Status CheckRequest(const Request& request, const RequestLimits& limits);

}  // namespace quire
