// The page as one document: whole, closed, and safe to put data into.
#include "server/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string DataOf(const std::string& page) {
  constexpr std::string_view kOpening = R"(<script id="quire-data" type="application/json">)";
  const size_t begin = page.find(kOpening) + kOpening.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(Page, HoldsItsPartsAndTheNoticeOfTheChartLibrary) {
  const std::string page(PageHtml());
  EXPECT_THAT(page, Not(HasSubstr("<!-- css: ")));
  EXPECT_THAT(page, Not(HasSubstr("<!-- js: ")));
  EXPECT_THAT(page, HasSubstr("Chart.js v"));
  EXPECT_THAT(page, HasSubstr("Released under the MIT License"));
  EXPECT_EQ(DataOf(page), "");
}

// Neither served nor saved does it load anything.
TEST(Page, NamesNothingOutsideItself) {
  const std::string page(PageHtml());
  for (const char* outside : {"<link rel=\"stylesheet\"", "<script src", "@import", "url(http",
                              "src=\"http", "<iframe", "<object"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(Page, KeepsDataAsTheyAre) {
  const std::string json = R"({"text":"</script><script>alert(1)</script><!--","n":[1,2.5]})";
  const std::string page = PageWithData(json);
  const std::string data = DataOf(page);
  EXPECT_THAT(data, Not(HasSubstr("<")));
  EXPECT_EQ(boost::json::parse(data), boost::json::parse(json));
  EXPECT_EQ(page.size(), PageHtml().size() + data.size()) << "and changes nothing else";
}

TEST(Page, AllowsItsOwnScriptsAndNoOthers) {
  const std::string& policy = PagePolicy();
  EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(policy, HasSubstr("connect-src 'self'"));
  const std::string scripts = policy.substr(policy.find("script-src"), policy.find("; style") - 21);
  EXPECT_THAT(scripts, Not(HasSubstr("unsafe")));
  EXPECT_THAT(policy, Not(HasSubstr("http")));
}

TEST(Page, IsNamedByItsContent) {
  EXPECT_EQ(PageTag().size(), 34u);
  EXPECT_EQ(PageTag().front(), '"');
  EXPECT_EQ(PageTag().back(), '"');
}

}  // namespace
}  // namespace quire
