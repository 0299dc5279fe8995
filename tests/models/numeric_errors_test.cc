// Values that are no numbers, wherever they come from: an error that names the layer, never an
// answer.
#include <limits>

#include "engine/engine_fixture.h"
#include "models/models_fixture.h"

namespace quire::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The sum of the residual is looked at where it is read: at the latest by the next norm.
auto IsFoundInLayer0() {
  return AnyOf(HasSubstr("layer 0"), HasSubstr("layer 1: a value is not a number or infinite at "
                                               "the input of attention"));
}

class NumericErrors : public ::testing::TestWithParam<std::string> {
 protected:
  // The error of computing some tokens, or "computed".
  std::string Compute(const TinyLlama& model, KvType kv_type = KvType::kF16, int num_tokens = 4) {
    const std::filesystem::path path = directory_.path() / "model.gguf";
    EXPECT_TRUE(model.Write(path));
    const auto runner =
        MakeTestRunner(path, {.kernels = std::string(kernels()), .kv_type = kv_type});
    if (runner == nullptr) return "not made";
    std::vector<int32_t> tokens(num_tokens);
    std::iota(tokens.begin(), tokens.end(), 1);
    std::vector<float> rows(runner->vocab_size());
    const Status status = runner->ComputeRows(tokens, 1, rows);
    if (status.ok()) return "computed";
    EXPECT_EQ(status.error().code, ErrorCode::kNumeric);
    return status.error().message;
  }

  std::string kernels() const { return GetParam(); }

  ScratchDirectory directory_;
};

TEST_P(NumericErrors, KeysTooLargeForHalvesNameTheWiderType) {
  TinyLlama model({});
  TinyTensor& key = model.tensor("blk.1.attn_k.weight");
  const std::vector<float> values = key.Values();
  for (size_t i = 0; i < values.size(); ++i) key.SetValue(i, values[i] * 1e6f);
  EXPECT_THAT(Compute(model), HasSubstr("layer 1"));
  EXPECT_THAT(Compute(model), HasSubstr("--kv-type bf16 or f32"));
  EXPECT_EQ(Compute(model, KvType::kF32), "computed");
}

TEST_P(NumericErrors, ValuesTooLargeForHalvesNameTheWiderType) {
  TinyLlama model({});
  TinyTensor& value = model.tensor("blk.0.attn_v.weight");
  const std::vector<float> values = value.Values();
  for (size_t i = 0; i < values.size(); ++i) value.SetValue(i, values[i] * 1e6f);
  EXPECT_THAT(Compute(model), HasSubstr("layer 0"));
  EXPECT_THAT(Compute(model), HasSubstr("--kv-type bf16 or f32"));
  EXPECT_EQ(Compute(model, KvType::kF32), "computed");
}

TEST_P(NumericErrors, AWeightThatIsNoNumberIsFoundInEveryTensorOfALayer) {
  // Whatever the number of tokens: one alone attends itself with a weight of one.
  for (const int num_tokens : {1, 2, 4, 40}) {
    for (const char* name : {"attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight",
                             "attn_output.weight", "ffn_norm.weight", "ffn_gate.weight",
                             "ffn_up.weight", "ffn_down.weight"}) {
      for (const KvType kv_type : {KvType::kF16, KvType::kF32}) {
        TinyLlama model({});
        model.tensor(std::string("blk.0.") + name).SetValue(3, kNan);
        EXPECT_THAT(Compute(model, kv_type, num_tokens), IsFoundInLayer0())
            << name << ", " << num_tokens << " tokens";
      }
    }
  }
}

TEST_P(NumericErrors, AWeightThatIsNoNumberIsFoundAtBothEnds) {
  TinyLlama model({});
  model.tensor("token_embd.weight").SetValue(64 * 2, kNan);  // of token 2
  EXPECT_THAT(Compute(model), HasSubstr("layer 0"));
  TinyLlama other({});
  other.tensor("token_embd.weight").SetValue(64 * 50, kNan);  // of a token that is not used
  EXPECT_EQ(Compute(other), "computed");
}

TEST_P(NumericErrors, AQuantisedScaleThatIsNoNumberIsFound) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kF16, DType::kBF16}) {
    for (const char* name :
         {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
          "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) {
      TinyLlama model({.matrices = dtype});
      std::string& bytes = model.tensor(std::string("blk.0.") + name).bytes;
      bytes[0] = '\xc0';
      bytes[1] = '\x7f';  // a NaN as a half and as a bfloat16
      for (const int num_tokens : {1, 4}) {
        EXPECT_THAT(Compute(model, KvType::kF16, num_tokens), IsFoundInLayer0())
            << name << " " << InfoOf(dtype).name << ", " << num_tokens << " tokens";
      }
    }
  }
}

TEST_P(NumericErrors, ScoresThatOverflowAreNoAnswer) {
  // Queries and keys are finite, their product is not.
  TinyLlama model({});
  for (const char* name : {"blk.1.attn_q.weight", "blk.1.attn_k.weight"}) {
    TinyTensor& tensor = model.tensor(name);
    const std::vector<float> values = tensor.Values();
    for (size_t i = 0; i < values.size(); ++i) tensor.SetValue(i, values[i] * 1e25f);
  }
  EXPECT_THAT(Compute(model, KvType::kF32), HasSubstr("layer 1"));
}

INSTANTIATE_TEST_SUITE_P(Kernels, NumericErrors, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const KernelSet* set : AvailableKernels()) {
                             names.emplace_back(set->name);
                           }
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace quire::testing
