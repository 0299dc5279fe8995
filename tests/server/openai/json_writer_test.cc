#include "server/openai/json_members.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

namespace quire {
namespace {

TEST(JsonWriter, EscapesEveryByteAsBoostDoes) {
  std::string all;
  for (int byte = 0; byte < 128; ++byte) {
    const std::string text = "a" + std::string(1, static_cast<char>(byte)) + "b";
    std::string written;
    JsonWriter(written).String(text);
    EXPECT_EQ(written, boost::json::serialize(text)) << byte;
    all += text;
  }
  all += "é漢😀";
  std::string written;
  JsonWriter(written).String(all);
  EXPECT_EQ(written, boost::json::serialize(all));
  EXPECT_EQ(boost::json::parse(written).as_string(), all);
}

TEST(JsonWriter, WritesAMemberAsNameAndValue) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  IntMember("int", -3, json);
  BytesMember("bytes", UINT64_MAX, json);
  NumberMember("number", .5, json);
  BoolMember("bool", false, json);
  TextMember("text", "a\"\xff", json);
  json.EndObject();
  EXPECT_EQ(out, R"({"int":-3,"bytes":9223372036854775807,"number":0.5,"bool":false,)"
                 R"("text":"a\"�"})");
}

TEST(JsonWriter, PutsCommasBetweenAndNowhereElse) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("a");
  json.BeginArray();
  json.EndArray();
  json.Key("b\"");
  json.BeginArray();
  json.Int(-1);
  json.BeginObject();
  json.EndObject();
  json.Null();
  json.Bool(true);
  json.EndArray();
  json.Key("c");
  json.Ids(std::vector<int32_t>{1, 2});
  json.Key("d");
  json.Raw("{}");
  json.EndObject();
  EXPECT_EQ(out, R"({"a":[],"b\"":[-1,{},null,true],"c":[1,2],"d":{}})");
}

TEST(JsonWriter, WritesNumbersThatReadBackAsThemselves) {
  for (const double value : {0.0, -0.0, 1.0, -9999.0, 0.1, 1e300, -1e-300, 1e22, 5e-324}) {
    std::string out;
    JsonWriter(out).Number(value);
    const auto parsed = boost::json::parse(out);
    ASSERT_TRUE(parsed.is_double()) << out;
    EXPECT_EQ(parsed.as_double(), value) << out;
  }
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  json.Number(std::numeric_limits<double>::infinity());
  json.Number(std::numeric_limits<double>::quiet_NaN());
  json.Float(0.1f);
  json.EndArray();
  EXPECT_EQ(out, "[null,null,0.1]");
}

}  // namespace
}  // namespace quire
