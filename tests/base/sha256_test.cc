#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(ToHex(Sha256().Finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256().Add("abc").Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ToHex(Sha256().Add(std::string(1'000'000, 'a')).Finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsAreOneStreamOfBytes) {
  const Digest whole = Sha256().Add("abcdefgh").Finish();
  EXPECT_EQ(whole, Sha256().Add("abc").Add("").Add("defgh").Finish());
  EXPECT_EQ(whole, Sha256().Add(uint64_t{0x6867666564636261}).Finish());  // little-endian
  EXPECT_NE(whole, Sha256().Add("abcdefgH").Finish());
}

TEST(Sha256, DigestsAreHashedAsTheirBytes) {
  const Digest digest = Sha256().Add("abc").Finish();
  const std::string bytes(digest.begin(), digest.end());
  EXPECT_EQ(Sha256().Add(digest).Finish(), Sha256().Add(bytes).Finish());
}

}  // namespace
}  // namespace quire
