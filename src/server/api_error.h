// Errors as the OpenAI API tells them: an HTTP status, and an object of message, type, param, code.
#pragma once

#include <string>

#include "base/result.h"

namespace quire {

struct ApiError {
  int status = 400;
  std::string message{};
  std::string type = "invalid_request_error";
  std::string param{};  // the field at fault; empty = null
  std::string code{};   // for programs; empty = null
};

// The HTTP status of an error that a request meets: 400 where the request is at fault, 404 where
// what it names is not there, 429 where it may try again later, 500 and 503 otherwise.
int HttpStatusOf(ErrorCode code);

ApiError ApiErrorOf(const Error& error, std::string_view param = {});

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string ToJson(const ApiError& error);

}  // namespace quire
