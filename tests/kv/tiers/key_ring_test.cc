#include "kv/tiers/key_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "kv/tiers/record_fixture.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

const std::string kFirst(64, '1');
const std::string kSecond = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

class KeyFile : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const KeyRing>> Read(const std::string& text, mode_t mode = 0600) {
    WriteFile(path_, text);
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    return KeyRing::FromFile(path_);
  }
  std::string FaultOf(const std::string& text, mode_t mode = 0600) {
    const auto ring = Read(text, mode);
    EXPECT_FALSE(ring.ok()) << text;
    if (ring.ok()) return "";
    EXPECT_EQ(ring.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(ring.error().message, HasSubstr(path_.string()));
    return ring.error().message;
  }

  ScratchDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "keys";
};

TEST_F(KeyFile, HoldsAKeyALineAndComments) {
  const auto ring = Read("# of the cluster\n\n  " + kSecond + "  # since spring\r\n" + kFirst);
  ASSERT_TRUE(ring.ok()) << ring.error().message;
  Secret first;
  first.fill(0x11);
  EXPECT_TRUE((*ring)->Knows(RingOf({first})->id()));
  EXPECT_NE((*ring)->id(), RingOf({first})->id());  // the first line seals
  EXPECT_FALSE((*ring)->Knows(KeyId{}));
}

TEST_F(KeyFile, IsRefusedByTheLineThatIsWrongAndNeverQuoted) {
  EXPECT_THAT(FaultOf(kFirst + "\n# x\n" + kFirst.substr(1) + "\n"), HasSubstr("line 3"));
  EXPECT_THAT(FaultOf(kFirst + "0\n"), HasSubstr("line 1: expected 64 hexadecimal digits, got 65"));
  EXPECT_THAT(FaultOf(kFirst.substr(1) + "g\n"), HasSubstr("line 1"));
  EXPECT_THAT(FaultOf(kFirst.substr(2) + "-1\n"), HasSubstr("line 1"));
  EXPECT_THAT(FaultOf(kFirst + "\n" + kFirst + "\n"), HasSubstr("line 2: a key that is there"));
  EXPECT_THAT(FaultOf(std::string("\0\xff\n", 3)), HasSubstr("line 1"));
  EXPECT_THAT(FaultOf("secret-passphrase\n"), ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(FaultOf(""), HasSubstr("no key"));
  EXPECT_THAT(FaultOf("# nothing\n\n"), HasSubstr("no key"));
  EXPECT_THAT(FaultOf(std::string(1 << 20, '#')), HasSubstr("longer"));
}

TEST_F(KeyFile, HoldsSixteenKeysAtMost) {
  std::string text;
  for (int i = 0; i < 16; ++i) text += kFirst.substr(2) + fmt::format("{:02x}\n", i);
  EXPECT_TRUE(Read(text).ok());
  EXPECT_THAT(FaultOf(text + kSecond), HasSubstr("line 17: more than 16 keys"));
}

TEST_F(KeyFile, IsRefusedWhereOthersThanTheOwnerMayTouchIt) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0644, 0777}) {
    EXPECT_THAT(FaultOf(kFirst, mode), HasSubstr("chmod 600")) << mode;
  }
  EXPECT_TRUE(Read(kFirst, 0400).ok());
}

TEST_F(KeyFile, IsAnOrdinaryFile) {
  EXPECT_EQ(KeyRing::FromFile(directory_.path() / "absent").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(KeyRing::FromFile(directory_.path()).ok());
  const auto pipe = directory_.path() / "pipe";  // that nobody writes to: it is not waited for
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(KeyRing::FromFile(pipe).error().code, ErrorCode::kInvalidArgument);
}

TEST(KeyRing, HasAtLeastOneKeyAndNoneTwice) {
  EXPECT_FALSE(KeyRing::Make({}).ok());
  const Secret twice[] = {SecretFrom(1), SecretFrom(1)};
  EXPECT_FALSE(KeyRing::Make(twice).ok());
}

TEST(KeyRing, MakesSubkeysThatDiffer) {
  const auto ring = GoldenRing();
  const Bytes text = GoldenPayload(40);
  const std::span<const std::byte> parts[] = {text};
  EXPECT_NE(ring->Mac(ring->id(), parts), ring->Name(ring->id(), "", text));
  EXPECT_NE(ring->Name(ring->id(), "a", text), ring->Name(ring->id(), "b", text));
  const auto other = RingOf({SecretFrom(1)});
  EXPECT_NE(ring->Mac(ring->id(), parts), other->Mac(other->id(), parts));
}

TEST(KeyRing, MacsPartsAsOneText) {
  const auto ring = GoldenRing();
  const Bytes text = GoldenPayload(100);
  const std::span<const std::byte> whole[] = {text};
  const std::span<const std::byte> parts[] = {
      std::span(text).first(33), {}, std::span(text).subspan(33)};
  EXPECT_EQ(ring->Mac(ring->id(), whole), ring->Mac(ring->id(), parts));
}

TEST(KeyRing, DecryptsOnlyWhatItEncrypted) {
  const auto ring = RingOf({SecretFrom(0), SecretFrom(50)});
  const Bytes clear = GoldenPayload(10);
  Bytes text = GoldenPayload(77);
  const auto nonce = KeyRing::RandomNonce();
  std::array<uint8_t, KeyRing::kTagBytes> tag;
  const std::span<std::byte> whole[] = {text};
  ring->Encrypt(nonce, clear, whole, tag);
  EXPECT_NE(text, GoldenPayload(77));

  const auto opens = [&](const KeyId& id, Bytes changed_clear, Bytes changed_text, auto changed_tag,
                         auto changed_nonce) {
    const std::span<std::byte> parts[] = {std::span(changed_text).first(20),
                                          std::span(changed_text).subspan(20)};
    return ring->Decrypt(id, changed_nonce, changed_clear, parts, changed_tag) &&
           changed_text == GoldenPayload(77);
  };
  EXPECT_TRUE(opens(ring->id(), clear, text, tag, nonce));
  EXPECT_FALSE(opens(ring->id(), Flipped(clear, 9), text, tag, nonce));
  EXPECT_FALSE(opens(ring->id(), clear, Flipped(text, 76), tag, nonce));
  auto wrong_tag = tag;
  wrong_tag[15] ^= 1;
  EXPECT_FALSE(opens(ring->id(), clear, text, wrong_tag, nonce));
  auto wrong_nonce = nonce;
  wrong_nonce[0] ^= 1;
  EXPECT_FALSE(opens(ring->id(), clear, text, tag, wrong_nonce));
  EXPECT_FALSE(opens(RingOf({SecretFrom(50)})->id(), clear, text, tag, nonce));
}

TEST(KeyRing, ComparesWholeDigests) {
  const Secret a = SecretFrom(0);
  Secret b = a;
  EXPECT_TRUE(KeyRing::Equal(a, b));
  b[31] ^= 1;
  EXPECT_FALSE(KeyRing::Equal(a, b));
  EXPECT_FALSE(KeyRing::Equal(a, std::span(a).first(31)));
}

}  // namespace
}  // namespace quire
