// What stands behind a path's '?'.
#include "server/http/query.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Query, IsNamesAndValuesInOrder) {
  EXPECT_EQ(ParseQuery("a=1&b=x+y%21&a=2"), (QueryFields{{"a", "1"}, {"b", "x y!"}, {"a", "2"}}));
  EXPECT_EQ(ParseQuery("flag&=v&&x="), (QueryFields{{"flag", ""}, {"", "v"}, {"x", ""}}));
  EXPECT_EQ(ParseQuery("a=b=c%3D"), (QueryFields{{"a", "b=c="}}));
  EXPECT_TRUE(ParseQuery("").empty());
  EXPECT_TRUE(ParseQuery("&&&").empty());
}

TEST(Query, DecodesBytesAndKeepsWhatIsNone) {
  EXPECT_EQ(PercentDecoded("a%2Fb%zz%4"), "a/b%zz%4");
  EXPECT_EQ(PercentDecoded("%00%ff"), std::string("\0\xff", 2));
  EXPECT_EQ(PercentDecoded("+"), "+") << "only a query writes spaces so";
}

}  // namespace
}  // namespace quire
