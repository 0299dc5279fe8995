#include "server/api_error.h"

#include <boost/json.hpp>

#include "base/utf8.h"

namespace quire {
namespace {

boost::json::value TextOrNull(const std::string& text) {
  if (text.empty()) return nullptr;
  return boost::json::value(RepairUtf8(text));
}

}  // namespace

int HttpStatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kContextLength:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kInterrupted:
      return 503;
    case ErrorCode::kCorrupt:
    case ErrorCode::kNumeric:
    case ErrorCode::kIo:
      return 500;
  }
  return 500;
}

ApiError ApiErrorOf(const Error& error, std::string_view param) {
  ApiError result{.status = HttpStatusOf(error.code), .message = error.message};
  result.param = param;
  switch (error.code) {
    case ErrorCode::kContextLength:
      result.code = "context_length_exceeded";
      break;
    case ErrorCode::kResourceExhausted:
      result.type = "rate_limit_error";
      result.code = "rate_limit_exceeded";
      break;
    case ErrorCode::kInvalidArgument:
      result.code = "invalid_value";
      break;
    case ErrorCode::kUnsupported:
      result.code = "unsupported_value";
      break;
    case ErrorCode::kNotFound:
      result.code = "not_found";
      break;
    default:
      result.type = "server_error";
      break;
  }
  return result;
}

std::string ToJson(const ApiError& error) {
  const boost::json::object body = {{"message", RepairUtf8(error.message)},
                                    {"type", error.type},
                                    {"param", TextOrNull(error.param)},
                                    {"code", TextOrNull(error.code)}};
  return boost::json::serialize(boost::json::object{{"error", body}});
}

}  // namespace quire
