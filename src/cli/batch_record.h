// Lines of `quire batch`: requests in, results out, in the form of OpenAI's batch files.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   {"id": "...", "custom_id": "a", "response": {"status_code", "request_id", "body"}, "error":
//   null}
//
// A request line may also be the body alone; it is then called "line-N". A result has an error
// exactly where its request was not answered. A line that no request could be read from has
// neither custom_id nor response. Functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/api_error.h"
#include "server/openai/request.h"

namespace quire {

struct BatchRequest {
  std::string custom_id{};
  std::variant<OpenAiRequest, ApiError> body{};  // what the body's parser made of it
};

// The request of a line, or why there is none in it.
std::variant<BatchRequest, ApiError> ParseBatchLine(std::string_view text, int64_t line_number,
                                                    const OpenAiLimits& limits);

// Results, each a line without its newline. response_id is the body's own.
std::string AnsweredLine(std::string_view custom_id, std::string_view response_id,
                         std::string_view body);
std::string RefusedLine(std::string_view custom_id, const ApiError& error, int64_t line_number);
std::string BadLine(const ApiError& error, int64_t line_number);

// What a result that was written before says.
struct PastResult {
  std::optional<std::string> custom_id{};  // absent: a line without a request
  bool is_answered = false;
  int64_t line_number = 0;  // of the request, where it was not answered
};
// Nothing for text that is no result.
std::optional<PastResult> ReadResultLine(std::string_view text);

// Whether the text can be the beginning of a result.
bool MayBeginResult(std::string_view text);

}  // namespace quire
