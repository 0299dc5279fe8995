// What is said about an answer after it: a line for people, an object for programs.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/generation.h"

namespace quire {

// "23 prompt tokens (0 cached), first token 0.12 s, prefill 190 tok/s, 40 tokens at 110 tok/s, KV
// 1.4 MiB"
std::string FormatStats(const RequestResult& result, const Engine& engine);
// The line above in dim letters on standard error, where that is a terminal; plain elsewhere.
void PrintStats(const RequestResult& result, const Engine& engine);

// {"text", "tokens", "finish_reason", "usage": {...}, "timings": {...}, "seed", "logprobs"?}
std::string AnswerAsJson(const RequestResult& result, const Engine& engine);

}  // namespace quire
