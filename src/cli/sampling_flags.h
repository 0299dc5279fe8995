// The flags that say how an answer is sampled and when it ends.
#pragma once

#include <string>
#include <vector>

#include "engine/request.h"

namespace CLI {
class App;
}

namespace quire {

struct SamplingFlags {
  // Starts with what llama.cpp's users get when they say nothing: temperature 0.8, top_k 40,
  // top_p 0.95, min_p 0.05.
  SamplingFlags();

  Request request;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
};

// Declares the flags, with what `flags` holds as their defaults; it outlives the parse.
void AddSamplingFlags(CLI::App& app, SamplingFlags& flags);

// The request as parsed, without a prompt.
Result<Request> RequestOf(const SamplingFlags& flags);

}  // namespace quire
