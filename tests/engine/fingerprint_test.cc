// What names a prefix: everything that keys and values depend on, and nothing else.
#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "kernels/numerics_version.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire {
namespace {

class FingerprintTest : public ::testing::Test {
 protected:
  Digest Of(const testing::TinyLlama& model, RunnerOptions options = {},
            const std::string& name = "model.gguf") {
    EXPECT_TRUE(model.Write(directory_.path() / name));
    const auto runner = testing::MakeTestRunner(directory_.path() / name, options);
    return runner == nullptr ? Digest{} : runner->fingerprint();
  }

  ScratchDirectory directory_;
  const testing::TinyLlama model_{{}};
};

TEST_F(FingerprintTest, OneByteOfAWeightChangesIt) {
  testing::TinyLlama other({});
  std::string& bytes = other.tensor("blk.1.ffn_up.weight").bytes;
  bytes[17] = static_cast<char>(bytes[17] ^ 1);
  EXPECT_NE(Of(other), Of(model_));
}

TEST_F(FingerprintTest, ConstantsOfTheModelChangeIt) {
  const Digest expected = Of(model_);
  testing::TinyLlama rope({});
  rope.Set("llama.rope.freq_base", 500000.0f);
  EXPECT_NE(Of(rope), expected);
  testing::TinyLlama epsilon({});
  epsilon.Set("llama.attention.layer_norm_rms_epsilon", 2e-5f);
  EXPECT_NE(Of(epsilon), expected);
}

TEST_F(FingerprintTest, TheTypeOfKeysAndValuesChangesIt) {
  const Digest expected = Of(model_);
  EXPECT_NE(Of(model_, {.kv_type = KvType::kF32}), expected);
  EXPECT_NE(Of(model_, {.kv_type = KvType::kBF16}), expected);
}

TEST_F(FingerprintTest, TheNumericsVersionAndTheSaltChangeTheRoot) {
  const FingerprintInput input{.numerics_version = kNumericsVersion};
  FingerprintInput other = input;
  ++other.numerics_version;
  EXPECT_NE(FingerprintOf(other), FingerprintOf(input));
  const Digest fingerprint = FingerprintOf(input);
  EXPECT_NE(RootOf(fingerprint, "a"), RootOf(fingerprint, ""));
  EXPECT_NE(RootOf(fingerprint, "a"), RootOf(fingerprint, "b"));
  EXPECT_NE(RootOf(fingerprint, "a", "b"), RootOf(fingerprint, "ab"));
}

TEST_F(FingerprintTest, NothingElseDoes) {
  const Digest expected = Of(model_);
  for (const KernelSet* set : AvailableKernels()) {
    EXPECT_EQ(Of(model_, {.kernels = std::string(set->name)}), expected) << set->name;
  }
  EXPECT_EQ(Of(model_, {.num_threads = 3}), expected);
  EXPECT_EQ(Of(model_, {.max_batched_tokens = 7}), expected);
  EXPECT_EQ(Of(model_, {.num_sequences = 9}), expected);
  EXPECT_EQ(Of(model_, {.context_length = 64}), expected);
  EXPECT_EQ(Of(model_, {.kv_bytes = 1 << 20}), expected);
  EXPECT_EQ(Of(model_, {}, "another.gguf"), expected);
  testing::TinyLlama renamed({});
  renamed.SetString("general.name", "Another name");
  EXPECT_EQ(Of(renamed), expected);
}

}  // namespace
}  // namespace quire
