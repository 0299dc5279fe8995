#include "cli/tier_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/cache/store_flags.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TierFlagsTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("QUIRE_KV_REDIS"); }
  void TearDown() override { ::unsetenv("QUIRE_KV_REDIS"); }

  static std::string ErrorOf(const TierFlags& flags) {
    const auto options = TierOptionsOf(flags);
    if (options.ok()) return "none";
    EXPECT_EQ(options.error().code, ErrorCode::kInvalidArgument);
    return options.error().message;
  }
};

TEST_F(TierFlagsTest, WithoutAnyThereAreNoTiers) {
  const auto options = TierOptionsOf({});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->factories.empty());
  EXPECT_EQ(options->keys, nullptr);
}

TEST_F(TierFlagsTest, TheVariableNamesAServerUnlessAFlagSaysOtherwise) {
  ::setenv("QUIRE_KV_REDIS", "redis://localhost", 1);
  EXPECT_EQ(TierOptionsOf({.trust_remote = true})->factories.size(), 1u);
  EXPECT_EQ(TierOptionsOf({.redis = ""})->factories.size(), 0u);
  EXPECT_EQ(TierOptionsOf({.disk = "x", .trust_remote = true})->factories.size(), 2u);
}

TEST_F(TierFlagsTest, AServerWithoutKeysIsRefusedUnlessItIsTrustedAloud) {
  const std::string error = ErrorOf({.redis = "redis://localhost"});
  EXPECT_THAT(error, HasSubstr("--kv-key-file"));
  EXPECT_THAT(error, HasSubstr("--kv-trust-remote"));
}

TEST_F(TierFlagsTest, NoMessageHoldsThePassword) {
  for (const char* url : {"redis://u:secret@host:99999", "http://u:secret@host", "redis://u:secret",
                          "redis://:secret@host/x", "secret"}) {
    EXPECT_THAT(ErrorOf({.redis = url, .trust_remote = true}), Not(HasSubstr("secret"))) << url;
    EXPECT_THAT(ErrorOf({.redis = url}), Not(HasSubstr("secret"))) << url;
  }
}

TEST_F(TierFlagsTest, SizesOutOfRangeAreRefusedWithTheRange) {
  EXPECT_THAT(ErrorOf({.disk = "x", .disk_max = "1023KiB"}), HasSubstr("1MiB to 1024TiB"));
  EXPECT_THAT(ErrorOf({.disk = "x", .disk_max = "2000TiB"}), HasSubstr("1MiB to 1024TiB"));
  EXPECT_THAT(ErrorOf({.disk = "x", .disk_max = "8G"}), HasSubstr("--kv-disk-max"));
  EXPECT_THAT(ErrorOf({.disk = "x", .disk_min_free = "-1"}), HasSubstr("--kv-disk-min-free"));
  EXPECT_THAT(ErrorOf({.tenant_max = "many"}), HasSubstr("--kv-tenant-max"));
}

TEST_F(TierFlagsTest, EncryptionNeedsAKey) {
  EXPECT_THAT(ErrorOf({.disk = "x", .encrypts = true}), HasSubstr("--kv-key-file"));
}

TEST(StoreFlags, DurationsHaveAUnit) {
  EXPECT_EQ(*ParseDuration("90s"), 90);
  EXPECT_EQ(*ParseDuration("1.5h"), 5400);
  EXPECT_EQ(*ParseDuration("2w"), 14 * 86'400);
  for (const char* text : {"", "7", "d", "-1d", "7 d", "7days", "1e3d", "99999999w", "nan"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(StoreFlags, BytesAreShortAndNeverRoundUpToAThousand) {
  EXPECT_EQ(ShortBytes(0), "0 B");
  EXPECT_EQ(ShortBytes(1023), "1023 B");
  EXPECT_EQ(ShortBytes(1024), "1.0 KiB");
  EXPECT_EQ(ShortBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(ShortBytes(uint64_t{20} << 30), "20.0 GiB");
}

TEST(StoreFlags, AFilterWithoutAModelTakesAll) {
  const auto filter = FilterOf("");
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(filter->Matches({}));
}

TEST(StoreFlags, AFilterMayBeTheBeginningOfAFingerprint) {
  const auto filter = FilterOf("ab01");
  ASSERT_TRUE(filter.ok());
  CataloguedModel model;
  EXPECT_FALSE(filter->Matches(model));
  model.fingerprint[0] = 0xab;
  model.fingerprint[1] = 0x01;
  EXPECT_TRUE(filter->Matches(model));
  EXPECT_FALSE(FilterOf("ab0").ok());
  EXPECT_FALSE(FilterOf("no-such-model").ok());
}

}  // namespace
}  // namespace quire
