#include "server/routes/host_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace quire {
namespace {

bool Has(std::string_view host, std::vector<std::string> patterns = {}) {
  return HostNames(patterns).Has(host);
}

TEST(HostNames, AddressesAreAlwaysItsOwn) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:8080", "192.168.1.7", "0.0.0.0:1", "127.0.0.1.",
                           "127.0.0.1:", "[::1]", "[::1]:8080", "[fe80::1%25eth0]:8080",
                           "[::ffff:127.0.0.1]", "[2001:DB8::1]:443"}) {
    EXPECT_TRUE(Has(host)) << host;
  }
}

TEST(HostNames, LocalhostAndNamesBelowItAreItsOwn) {
  for (const char* host : {"localhost", "localhost:8080", "LocalHost", "localhost.",
                           "localhost.:8080", "quire.localhost", "a.b.LOCALHOST:1"}) {
    EXPECT_TRUE(Has(host)) << host;
  }
}

TEST(HostNames, TheMachinesNameIsItsOwn) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  const std::string machine = name.data();
  if (machine.empty()) GTEST_SKIP() << "the machine has no name";
  EXPECT_TRUE(Has(machine));
  EXPECT_TRUE(Has(machine + ":8080"));
  EXPECT_TRUE(Has(machine + ".local"));
  EXPECT_FALSE(Has(machine + ".evil.example"));
  EXPECT_FALSE(Has("x" + machine + ".local"));
}

TEST(HostNames, ARequestWithoutAHostIsNoBrowsers) { EXPECT_TRUE(Has("")); }

TEST(HostNames, AllOtherNamesAreOthers) {
  for (const char* host : {"evil.example",
                           "evil.example:8080",
                           "localhost.evil.example",
                           "evillocalhost",
                           "127.0.0.1.evil.example",
                           "127.0.0.1@evil.example",
                           "127.0.0.1:80@evil.example",
                           "127.0.0.1 evil.example",
                           "localhost,evil.example",
                           "127.1",
                           "0x7f.0.0.1",
                           "2130706433",
                           "[evil.example]",
                           "[::1",
                           "[::1]evil.example",
                           "[::1]:80:80",
                           "[]",
                           "[",
                           "::1",
                           ":8080",
                           ".",
                           "..",
                           "localhost..",
                           "*",
                           "localhost:http",
                           " localhost"}) {
    EXPECT_FALSE(Has(host)) << host;
  }
  EXPECT_FALSE(Has(std::string_view("127.0.0.1\0.evil.example", 23)));
  EXPECT_FALSE(Has(std::string_view("localhost\0", 10)));
  EXPECT_FALSE(Has(std::string(100'000, 'a')));
}

TEST(HostNames, ListedNamesAreItsOwnToo) {
  const std::vector<std::string> patterns = {"quire", "*.Example.com", "chat.example.org"};
  for (const char* host : {"quire", "QUIRE:8080", "quire.", "a.example.com", "a.b.EXAMPLE.com:80",
                           "chat.example.org"}) {
    EXPECT_TRUE(Has(host, patterns)) << host;
  }
  for (const char* host : {"example.com", ".example.com", "badexample.com", "a.example.com.evil",
                           "quire.example", "x.chat.example.org", "evil.example"}) {
    EXPECT_FALSE(Has(host, patterns)) << host;
  }
}

TEST(HostNames, AStarIsAnyName) {
  EXPECT_TRUE(Has("evil.example", {"quire", "*"}));
  EXPECT_TRUE(Has("\xff\x01", {"*"}));
}

TEST(HostNames, APatternIsANameWithoutSchemeAndPort) {
  for (const char* text : {"*", "quire", "*.example.com", "my_box", "a-b.c", "127.0.0.1", "x."}) {
    EXPECT_TRUE(IsHostPattern(text)) << text;
  }
  for (const char* text : {"", "*.", "**", "*quire", "a.*.b", "quire:8080", "http://quire", "a b",
                           " quire", "[::1]", ".quire", "*..x", "qu\xc3\xadre"}) {
    EXPECT_FALSE(IsHostPattern(text)) << text;
  }
  EXPECT_FALSE(IsHostPattern(std::string(254, 'a')));
}

}  // namespace
}  // namespace quire
