#include "server/tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "support/scratch_directory.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kTwoKeys = R"({"keys": [
  {"key": "sk-first-key-of-a", "name": "a", "kv_quota": "2MiB"},
  {"key": "sk-other-key-of-b", "name": "b", "admin": true}]})";

std::string FaultOf(std::string_view text) {
  const auto tenants = Tenants::FromJson(text);
  return tenants.ok() ? "" : tenants.error().message;
}

// A file of one key with these members after its key.
std::string FaultOfMembers(const std::string& members) {
  return FaultOf(R"({"keys": [{"key": "sk-0123456789", )" + members + "}]}");
}

// The salt of a lone key with these members.
std::string SaltOfMembers(const std::string& members) {
  const auto tenants =
      Tenants::FromJson(R"({"keys": [{"key": "sk-0123456789", )" + members + "}]}");
  EXPECT_TRUE(tenants.ok()) << tenants.error().message;
  return tenants.ok() ? tenants->Authorize("Bearer sk-0123456789")->salt : "";
}

TEST(Tenants, WithoutKeysEverybodyIsOneAdmin) {
  const Tenants tenants;
  EXPECT_FALSE(tenants.asks_for_key());
  EXPECT_EQ(tenants.Authorize(""), tenants.Authorize("Bearer whatever"));
  EXPECT_TRUE(tenants.Authorize("")->is_admin);
}

TEST(Tenants, AKeyIsItsTenant) {
  const Tenants tenants = Tenants::FromJson(kTwoKeys).value();
  const Tenant* a = tenants.Authorize("Bearer sk-first-key-of-a");
  const Tenant* b = tenants.Authorize("Bearer sk-other-key-of-b");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(a->name, "a");
  EXPECT_EQ(a->kv_quota_bytes, uint64_t{2} << 20);
  EXPECT_FALSE(a->is_admin);
  EXPECT_TRUE(b->is_admin);
  EXPECT_EQ(b->kv_quota_bytes, 0u);
  EXPECT_NE(a->salt, b->salt);
}

TEST(Tenants, TheSchemeMayHaveAnyCaseAndTheKeyMayNot) {
  const Tenants tenants = Tenants::FromJson(kTwoKeys).value();
  EXPECT_NE(tenants.Authorize("bearer sk-first-key-of-a"), nullptr);
  EXPECT_NE(tenants.Authorize("BEARER  sk-first-key-of-a "), nullptr);
  for (const char* wrong : {"", "Bearer", "Bearer ", "sk-first-key-of-a", "Basic sk-first-key-of-a",
                            "Bearer SK-FIRST-KEY-OF-A", "Bearer sk-first-key-of-",
                            "Bearer sk-first-key-of-aa", "Bearer sk-first-key-of-a x"}) {
    EXPECT_EQ(tenants.Authorize(wrong), nullptr) << wrong;
  }
  EXPECT_EQ(tenants.Authorize(std::string(1 << 20, 'x')), nullptr);
  EXPECT_EQ(tenants.Authorize(std::string_view("Bearer sk-first-key-of-a\0", 25)), nullptr);
}

TEST(Tenants, OneKeyOfTheCommandLineIsAnAdmins) {
  const Tenants tenants = Tenants::FromKey("sk-only-one").value();
  EXPECT_FALSE(Tenants::FromKey("").ok());
  EXPECT_FALSE(Tenants::FromKey("a key with spaces").ok());
  EXPECT_TRUE(tenants.asks_for_key());
  EXPECT_EQ(tenants.Authorize(""), nullptr);
  EXPECT_TRUE(tenants.Authorize("Bearer sk-only-one")->is_admin);
}

TEST(Tenants, AGroupSharesItsSalt) {
  const std::string lab = SaltOfMembers(R"("name": "a", "group": "lab")");
  EXPECT_EQ(lab, SaltOfMembers(R"("name": "b", "group": "lab")"));
  EXPECT_NE(lab, SaltOfMembers(R"("name": "a", "group": "lab2")"));
}

TEST(Tenants, NoNameSpellsTheSaltOfAGroupOrOfAnother) {
  const std::string group = SaltOfMembers(R"("name": "a", "group": "lab")");
  EXPECT_NE(group, SaltOfMembers(R"("name": "lab")"));
  EXPECT_NE(group, SaltOfMembers(R"("name": ")" + group + "\""));
  EXPECT_NE(SaltOfMembers(R"("name": "a")"), SaltOfMembers(R"("name": "A")"));
  EXPECT_FALSE(SaltOfMembers(R"("name": "a")").empty());
}

TEST(Tenants, AFaultOfTheFileIsToldWithItsPlace) {
  EXPECT_THAT(FaultOf("{\"keys\":\n  [oops]}"), HasSubstr("line 2, column 4"));
  EXPECT_THAT(FaultOf(""), HasSubstr("line 1"));
  EXPECT_THAT(FaultOf("{\"keys\": []} {}"), HasSubstr("column 14"));
  for (const char* other : {"[]", "{}", "3", R"({"keys": {}})", R"({"keys": [], "more": 1})"}) {
    EXPECT_THAT(FaultOf(other), HasSubstr("\"keys\"")) << other;
  }
  // Nobody means to shut everybody out, or to let everybody in, with an empty list.
  EXPECT_THAT(FaultOf(R"({"keys": []})"), HasSubstr("empty"));
  EXPECT_THAT(FaultOf(R"({"keys": ["sk-0123456789"]})"), HasSubstr("keys[0]"));
  EXPECT_THAT(FaultOf(std::string(100'000, '[')), HasSubstr("line 1"));
}

TEST(Tenants, AFaultOfAMemberNamesIt) {
  EXPECT_THAT(FaultOf(R"({"keys": [{"name": "a"}]})"), HasSubstr("keys[0].key is missing"));
  EXPECT_THAT(FaultOf(R"({"keys": [{"key": "short", "name": "a"}]})"), HasSubstr("keys[0].key"));
  EXPECT_THAT(FaultOf(R"({"keys": [{"key": "with a space", "name": "a"}]})"),
              HasSubstr("printable ASCII"));
  EXPECT_THAT(FaultOfMembers(R"("group": "g")"), HasSubstr("keys[0].name is missing"));
  EXPECT_THAT(FaultOfMembers(R"("name": "")"), HasSubstr("keys[0].name"));
  EXPECT_THAT(FaultOfMembers(R"("name": "a b")"), HasSubstr("keys[0].name"));
  EXPECT_THAT(FaultOfMembers(R"("name": 3)"), HasSubstr("keys[0].name must be a string"));
  EXPECT_EQ(FaultOfMembers(R"("name": "a", "group": "")"), "");
  EXPECT_THAT(FaultOfMembers(R"("name": "a", "kv_quota": "2G")"), HasSubstr("keys[0].kv_quota"));
  EXPECT_THAT(FaultOfMembers(R"("name": "a", "kv_quota": 0)"), HasSubstr("keys[0].kv_quota"));
  EXPECT_THAT(FaultOfMembers(R"("name": "a", "kv_quota": -1)"), HasSubstr("keys[0].kv_quota"));
  EXPECT_THAT(FaultOfMembers(R"("name": "a", "admin": 1)"), HasSubstr("keys[0].admin"));
  EXPECT_THAT(FaultOfMembers(R"("name": "a", "amdin": true)"), HasSubstr("amdin is not known"));
}

TEST(Tenants, AKeyAndANameAreThereOnce) {
  EXPECT_THAT(FaultOf(R"({"keys": [{"key": "sk-0123456789", "name": "a"},
                                   {"key": "sk-0123456789", "name": "b"}]})"),
              HasSubstr("keys[1].key is that of keys[0]"));
  EXPECT_THAT(FaultOf(R"({"keys": [{"key": "sk-0123456789", "name": "a"},
                                   {"key": "sk-9876543210", "name": "a"}]})"),
              HasSubstr("keys[1].name 'a' is that of keys[0]"));
}

TEST(Tenants, NoErrorShowsAKey) {
  for (const char* members : {R"("name": "a b")", R"("name": "a", "other": 1)", R"("name": 1)"}) {
    EXPECT_THAT(FaultOfMembers(members), Not(HasSubstr("sk-0123456789")));
  }
  EXPECT_THAT(FaultOf(R"({"keys": [{"key": "sk-0123456789", "name": "a"}, oops]})"),
              Not(HasSubstr("sk-0123456789")));
}

class TenantsFile : public ::testing::Test {
 protected:
  TenantsFile() : path_(directory_.path() / "keys.json") { std::ofstream(path_) << kTwoKeys; }

  ScratchDirectory directory_;
  std::filesystem::path path_;
};

TEST_F(TenantsFile, IsReadWhereOthersCannot) {
  for (const mode_t mode : {0600, 0640, 0400}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_TRUE(Tenants::FromFile(path_).ok()) << mode;
  }
}

TEST_F(TenantsFile, IsRefusedWhereEverybodyMayReadIt) {
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  const auto tenants = Tenants::FromFile(path_);
  ASSERT_FALSE(tenants.ok());
  EXPECT_THAT(tenants.error().message, HasSubstr("0644"));
  EXPECT_THAT(tenants.error().message, HasSubstr("chmod"));
}

TEST_F(TenantsFile, ThatIsNoneIsNamed) {
  EXPECT_EQ(Tenants::FromFile(directory_.path() / "none").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Tenants::FromFile(directory_.path()).error().message, HasSubstr("directory"));
  std::ofstream(path_) << "{";
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_THAT(Tenants::FromFile(path_).error().message, HasSubstr("keys.json: line 1"));
}

}  // namespace
}  // namespace quire
