// That docs/openapi.json says what the server does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "server/openai/miss.h"
#include "server/routes/cache_body.h"
#include "server/routes/openapi_json.h"
#include "server/routes_rig.h"
#include "server/support/tier_rows.h"

namespace quire {
namespace {

namespace json = boost::json;
using testing::RigAnswer;
using testing::RoutesRig;

const json::value& Document() {
  static const json::value document = json::parse(kOpenApiJson);
  return document;
}

const json::object& Resolve(const json::object& object) {
  const json::value* reference = object.if_contains("$ref");
  if (reference == nullptr) return object;
  json::error_code error;
  const json::value* target =
      Document().find_pointer(std::string(reference->as_string()).substr(1), error);
  EXPECT_TRUE(target != nullptr && target->is_object()) << *reference;
  return target == nullptr ? object : target->as_object();
}

bool IsOfType(const json::value& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "integer") return value.is_int64() || value.is_uint64();
  return type == "number" && value.is_number();
}

std::string FaultOf(const json::value& value, const json::object& given);

std::string FaultOfObject(const json::object& value, const json::object& schema) {
  if (const json::value* required = schema.if_contains("required")) {
    for (const json::value& name : required->as_array()) {
      if (!value.contains(name.as_string())) return "misses " + json::serialize(name);
    }
  }
  const json::value* properties = schema.if_contains("properties");
  const json::value* others = schema.if_contains("additionalProperties");
  for (const auto& member : value) {
    const json::value* known =
        properties == nullptr ? nullptr : properties->as_object().if_contains(member.key());
    if (known == nullptr && others != nullptr && others->is_object()) known = others;
    // What answers have is in the document; what it leaves open says so by having no properties.
    if (known == nullptr) {
      if (properties == nullptr || properties->as_object().empty()) continue;
      return "has the unknown " + std::string(member.key());
    }
    const std::string fault = FaultOf(member.value(), known->as_object());
    if (!fault.empty()) return std::string(member.key()) + ": " + fault;
  }
  return "";
}

// Why a value is not of the schema, or nothing: the keywords that the document's answers use.
std::string FaultOf(const json::value& value, const json::object& given) {
  const json::object& schema = Resolve(given);
  if (const json::value* any = schema.if_contains("anyOf")) {
    const auto fits = [&](const json::value& one) {
      return FaultOf(value, one.as_object()).empty();
    };
    return std::ranges::any_of(any->as_array(), fits) ? "" : "is none of anyOf";
  }
  const std::string shown = json::serialize(value).substr(0, 200);
  if (const json::value* type = schema.if_contains("type")) {
    const json::array types = type->is_array() ? type->get_array() : json::array{*type};
    const auto fits = [&](const json::value& one) { return IsOfType(value, one.as_string()); };
    if (std::ranges::none_of(types, fits)) return shown + " is no " + json::serialize(*type);
  }
  if (const json::value* only = schema.if_contains("const")) {
    if (*only != value) return shown + " is not " + json::serialize(*only);
  }
  if (const json::value* names = schema.if_contains("enum")) {
    const json::array& list = names->as_array();
    if (std::ranges::find(list, value) == list.end()) return shown + " is not in the enum";
  }
  if (const json::value* least = schema.if_contains("minimum"); least && value.is_number()) {
    if (value.to_number<double>() < least->to_number<double>()) return shown + " is too small";
  }
  if (value.is_object()) return FaultOfObject(value.get_object(), schema);
  const json::value* items = schema.if_contains("items");
  if (!value.is_array() || items == nullptr) return "";
  for (const json::value& item : value.get_array()) {
    const std::string fault = FaultOf(item, items->as_object());
    if (!fault.empty()) return fault;
  }
  return "";
}

// Of an operation's answers with this status, the schema of JSON ones.
const json::object& AnswerSchema(const std::string& path, const std::string& method, int status) {
  const json::value& operation = Document().at("paths").at(path).at(method);
  const json::value& answers = operation.at("responses");
  return answers.at(std::to_string(status))
      .at("content")
      .at("application/json")
      .at("schema")
      .as_object();
}

void ForEachReference(const json::value& value, const std::function<void(const json::object&)>& f) {
  if (const json::object* object = value.if_object()) {
    if (object->contains("$ref")) f(*object);
    for (const auto& member : *object) ForEachReference(member.value(), f);
  }
  if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) ForEachReference(item, f);
  }
}

TEST(OpenApi, IsServedAsItIsKept) {
  RoutesRig rig;
  const RigAnswer answer = rig.Ask("GET", "/openapi.json");
  EXPECT_EQ(answer.status, 200);
  std::ifstream file(QUIRE_TESTS_DIR "/../docs/openapi.json");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(answer.body, text.str());
}

TEST(OpenApi, HasEveryRouteAndNoOther) {
  RoutesRig rig;
  std::set<std::string> served;
  for (const Route& route : rig.router().routes()) {
    std::string path = route.path;
    if (path.ends_with("/*")) path.pop_back();
    served.insert(route.method + " " + path);
  }
  std::set<std::string> documented;
  for (const auto& path : Document().at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      std::string method(operation.key());
      std::ranges::transform(method, method.begin(), ::toupper);
      const std::string name(path.key());
      documented.insert(method + " " + name.substr(0, name.find('{')));
    }
  }
  EXPECT_EQ(served, documented);
}

TEST(OpenApi, SaysWhichRoutesNeedNoKey) {
  RoutesRig rig;
  for (const Route& route : rig.router().routes()) {
    std::string method = route.method;
    std::ranges::transform(method, method.begin(), ::tolower);
    for (const auto& path : Document().at("paths").as_object()) {
      if (path.key() != route.path) continue;
      const json::object& operation = path.value().at(method).as_object();
      EXPECT_EQ(operation.contains("security"), !route.needs_key) << route.path;
      const json::object& answers = operation.at("responses").as_object();
      EXPECT_EQ(answers.contains("401"), route.needs_key) << route.path;
      // Where a key or, on a server without keys, the host may be the wrong one.
      const auto* refusal = answers.if_contains("403");
      EXPECT_EQ(refusal != nullptr, route.needs_key || route.path == "/") << route.path;
      if (refusal == nullptr) continue;
      const std::string why(refusal->at("description").as_string());
      EXPECT_EQ(why.find("The key may not see this") == 0, route.needs_admin) << route.path;
      EXPECT_EQ(why.find("Host") != std::string::npos, route.path != "/metrics") << route.path;
    }
  }
}

TEST(OpenApi, HoldsNoDeadReferenceAndNoOperationTwice) {
  int num_references = 0;
  ForEachReference(Document(), [&](const json::object& reference) {
    ++num_references;
    Resolve(reference);
  });
  EXPECT_GT(num_references, 50);
  std::set<std::string> names;
  for (const auto& path : Document().at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      const std::string name(operation.value().at("operationId").as_string());
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
}

struct Example {
  const char* path;
  const char* method;
  const char* asked;  // where it is not `path`
  const char* body;
  int status = 200;
};

TEST(OpenApi, DescribesTheAnswersThatCome) {
  RoutesRig rig;
  // Something to find, to explain and to list.
  const RigAnswer pin = rig.Ask("POST", "/quire/pins", R"({"prompt": "bbbbbbbbbbbbbbbbbbbbbb"})");
  ASSERT_EQ(pin.status, 200) << pin.body;
  const std::string pin_path =
      "/quire/pins/" + std::string(json::parse(pin.body).at("id").as_string());
  constexpr const char* kChat =
      R"({"messages": [{"role": "user", "content": "b"}], "max_tokens": 2, "logprobs": true,
          "n": 2, "quire": true, "return_token_ids": true})";
  constexpr const char* kCompletion =
      R"({"prompt": ["ab", [4, 5]], "max_tokens": 2, "logprobs": 1, "quire": true})";
  for (const Example& example : std::initializer_list<Example>{
           {"/v1/chat/completions", "post", "", kChat},
           {"/v1/chat/completions", "post", "", "{}", 400},
           {"/v1/completions", "post", "", kCompletion},
           {"/v1/completions", "post", "", R"({"model": "x", "prompt": "a"})", 404},
           {"/v1/chat/completions/render", "post", "", kChat},
           {"/v1/completions/render", "post", "", kCompletion},
           {"/v1/embeddings", "post", "", R"({"input": ["ab", "b"]})"},
           {"/v1/embeddings", "post", "", R"({"input": "ab", "encoding_format": "base64"})"},
           {"/v1/models", "get", "", ""},
           {"/v1/models/{model}", "get", "/v1/models/gpt-4o", ""},
           {"/v1/models/{model}", "get", "/v1/models/none", "", 404},
           {"/tokenize", "post", "", R"({"prompt": "ab", "return_token_strs": true})"},
           {"/tokenize", "post", "", R"({"prompt": "ab"})"},
           {"/detokenize", "post", "", R"({"tokens": [3, 4]})"},
           {"/health", "get", "", ""},
           {"/live", "get", "", ""},
           {"/version", "get", "", ""},
           {"/quire/cache", "get", "", ""},
           {"/quire/plan", "get", "", ""},
           {"/quire/blocks", "get", "", ""},
           {"/quire/tree", "get", "", ""},
           {"/quire/model", "get", "", ""},
           {"/quire/growth", "get", "", ""},
           {"/quire/roofline", "get", "", ""},
           {"/quire/explain", "post", "", R"({"prompt": "bbbbbbbbbbbbbbbbbbac"})"},
           {"/quire/explain", "post", "", R"({"prompt": ["c", "bbbbbbbbbbbbbbbbbbbbbb"]})"},
           {"/quire/pins", "get", "", ""},
           {"/quire/pins", "post", "", R"({"prompt": "bb", "label": "two"})"},
           {"/quire/pins/{id}", "delete", pin_path.c_str(), ""},
           {"/quire/pins/{id}", "delete", pin_path.c_str(), "", 404}}) {
    std::string method = example.method;
    std::ranges::transform(method, method.begin(), ::toupper);
    const RigAnswer answer =
        rig.Ask(method, *example.asked == '\0' ? example.path : example.asked, example.body);
    SCOPED_TRACE(method + " " + example.path + ": " + answer.body.substr(0, 2000));
    ASSERT_EQ(answer.status, example.status);
    EXPECT_EQ(FaultOf(json::parse(answer.body),
                      AnswerSchema(example.path, example.method, example.status)),
              "");
  }
}

// What a server with tiers would answer.
TEST(OpenApi, DescribesTiers) {
  RoutesRig rig;
  const auto cost =
      KvCost::Make(rig.context().engine.model().config(), KvElementOf(KvType::kF16)).value();
  const std::string body = CacheBody(testing::StatusWithTiers(), cost, 256);
  EXPECT_EQ(FaultOf(json::parse(body), AnswerSchema("/quire/cache", "get", 200)), "") << body;
  const json::object miss_schema{{"$ref", "#/components/schemas/Miss"}};
  for (int idx = 0; idx < kNumMissReasons; ++idx) {
    std::string miss;
    JsonWriter writer(miss);
    WriteMiss({.reason = static_cast<MissReason>(idx), .tier = "disk", .detail = "io"}, {},
              rig.context().engine.model().tokenizer(), writer);
    EXPECT_EQ(FaultOf(json::parse(miss), miss_schema), "") << miss;
  }
}

}  // namespace
}  // namespace quire
