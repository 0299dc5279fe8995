#include "cli/batch_record.h"

#include <algorithm>
#include <boost/json.hpp>

#include "formats/printable.h"
#include "sampling/seed.h"
#include "server/openai/body_reader.h"
#include "text/chat_template/json_text.h"

namespace quire {
namespace {

using jinja::Value;

constexpr size_t kMaxCustomIdBytes = 512;
// Every result begins so: it tells a torn one from a file that is something else.
constexpr std::string_view kBeginning = R"({"id":"batch_req_)";

std::string NewId() {
  const auto high = RandomSeed();
  const auto low = RandomSeed();
  return fmt::format("{:016x}{:016x}", high.ok() ? *high : 0, low.ok() ? *low : 0);
}

std::string Quoted(std::string_view text) { return boost::json::serialize(text); }

std::string ErrorMember(const ApiError& error, int64_t line_number) {
  return boost::json::serialize(
      boost::json::object{{"code", error.code.empty() ? error.type : error.code},
                          {"message", fmt::format("line {}: {}", line_number, error.message)},
                          {"line", line_number}});
}

// The request of a line that has an envelope around its body.
std::variant<BatchRequest, ApiError> ReadEnvelope(const jinja::Dict& envelope, const Value& body,
                                                  std::string default_id,
                                                  const OpenAiLimits& limits) {
  BodyReader reader(envelope);
  const auto custom_id = reader.String("custom_id");
  const auto method = reader.String("method");
  const auto url = reader.String("url");
  if (custom_id && (custom_id->empty() || custom_id->size() > kMaxCustomIdBytes)) {
    reader.Fail("custom_id", fmt::format("must have 1 to {} bytes, got {}", kMaxCustomIdBytes,
                                         custom_id->size()));
  }
  if (reader.error()) return *reader.error();
  BatchRequest request{.custom_id = custom_id.value_or(std::move(default_id))};
  if (method && *method != "POST") {
    request.body =
        ApiError{.status = 405,
                 .message = fmt::format("method must be POST, got '{}'", Printable(*method, 40)),
                 .param = "method",
                 .code = "method_not_allowed"};
    return request;
  }
  const auto endpoint = url ? EndpointOf(*url) : std::nullopt;
  if (!endpoint) {
    request.body = ApiError{
        .status = 404,
        .message = fmt::format("url must be /v1/chat/completions or /v1/completions, {}",
                               url ? "got '" + Printable(*url, 80) + "'" : "and is missing"),
        .param = "url",
        .code = "unknown_url"};
    return request;
  }
  request.body = ParseOpenAiRequest(*endpoint, body, limits);
  return request;
}

}  // namespace

std::variant<BatchRequest, ApiError> ParseBatchLine(std::string_view text, int64_t line_number,
                                                    const OpenAiLimits& limits) {
  const auto value = jinja::ValueFromJson(text);
  if (!value.ok()) return ApiError{.message = value.error().message, .code = "invalid_json"};
  if (!value->IsDict()) {
    return ApiError{.message = "expected a JSON object, got " + DescribeJson(*value),
                    .code = "invalid_line"};
  }
  const jinja::Dict& members = value->AsDict();
  std::string default_id = fmt::format("line-{}", line_number);
  if (const Value* body = members.Find("body")) {
    return ReadEnvelope(members, *body, std::move(default_id), limits);
  }
  const bool is_chat = members.Find("messages") != nullptr;
  if (!is_chat && members.Find("prompt") == nullptr) {
    return ApiError{.message = "expected an object with a body, with messages or with a prompt",
                    .code = "invalid_line"};
  }
  return BatchRequest{.custom_id = std::move(default_id),
                      .body = ParseOpenAiRequest(
                          is_chat ? OpenAiEndpoint::kChatCompletions : OpenAiEndpoint::kCompletions,
                          *value, limits)};
}

std::string AnsweredLine(std::string_view custom_id, std::string_view response_id,
                         std::string_view body) {
  return fmt::format(R"({}{}","custom_id":{},"response":{{"status_code":200,"request_id":{},)"
                     R"("body":{}}},"error":null}})",
                     kBeginning, NewId(), Quoted(custom_id), Quoted(response_id), body);
}

std::string RefusedLine(std::string_view custom_id, const ApiError& error, int64_t line_number) {
  const std::string id = NewId();
  return fmt::format(R"({}{}","custom_id":{},"response":{{"status_code":{},"request_id":"req_{}",)"
                     R"("body":{}}},"error":{}}})",
                     kBeginning, id, Quoted(custom_id), error.status, id, ToJson(error),
                     ErrorMember(error, line_number));
}

std::string BadLine(const ApiError& error, int64_t line_number) {
  return fmt::format(R"({}{}","custom_id":null,"response":null,"error":{}}})", kBeginning, NewId(),
                     ErrorMember(error, line_number));
}

std::optional<PastResult> ReadResultLine(std::string_view text) {
  if (!text.starts_with(kBeginning)) return std::nullopt;
  const auto value = jinja::ValueFromJson(text);
  if (!value.ok() || !value->IsDict()) return std::nullopt;
  const Value* custom_id = value->AsDict().Find("custom_id");
  const Value* error = value->AsDict().Find("error");
  if (custom_id == nullptr || error == nullptr) return std::nullopt;
  if (!custom_id->IsString() && !custom_id->IsNone()) return std::nullopt;
  PastResult past;
  if (custom_id->IsString()) past.custom_id = custom_id->Text();
  past.is_answered = error->IsNone();
  if (past.is_answered) return past.custom_id ? std::optional(past) : std::nullopt;
  if (!error->IsDict()) return std::nullopt;
  if (const Value* line = error->AsDict().Find("line"); line != nullptr && line->IsInt()) {
    past.line_number = line->AsInt();
  }
  return past;
}

bool MayBeginResult(std::string_view text) {
  const size_t length = std::min(text.size(), kBeginning.size());
  return text.substr(0, length) == kBeginning.substr(0, length);
}

}  // namespace quire
