// Tiny models of every weight format and of odd shapes, end to end: near a double-precision
// forward of the same weights, and the same bits in every kernel set.
#include <cmath>

#include "engine/engine_fixture.h"
#include "kernels/random_weights.h"
#include "models/models_fixture.h"

namespace quire::testing {
namespace {

const std::vector<int32_t> kTokens = {1, 5, 9, 2, 33, 7, 7, 60, 12, 40, 3, 21, 8, 55, 19, 4, 6, 11};

double LargestDifference(const std::vector<float>& got, const std::vector<double>& expected) {
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    // A NaN is the largest difference of all.
    const double difference = std::abs(got[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

double Deviation(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square / static_cast<double>(values.size()));
}

// Root of the mean squared difference.
double TypicalDifference(const std::vector<float>& got, const std::vector<double>& expected) {
  double square = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    square += (got[i] - expected[i]) * (got[i] - expected[i]);
  }
  return std::sqrt(square / static_cast<double>(got.size()));
}

class WholeModel : public ::testing::Test {
 protected:
  std::vector<float> LogitsOf(const TinyLlama& model, RunnerOptions options = {}) {
    const std::filesystem::path path = directory_.path() / "model.gguf";
    EXPECT_TRUE(model.Write(path));
    const auto runner = MakeTestRunner(path, options);
    return runner == nullptr ? std::vector<float>() : AllLogits(*runner, kTokens);
  }

  // Float weights and keys: what is left is rounding.
  void ExpectExact(const TinyLlama& model) {
    const std::vector<double> expected = model.Logits(kTokens);
    const std::vector<float> got = LogitsOf(model, {.kv_type = KvType::kF32});
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_LT(LargestDifference(got, expected), 1e-4 * Deviation(expected));
  }

  ScratchDirectory directory_;
};

class WholeModelOfFormat : public WholeModel, public ::testing::WithParamInterface<DType> {};

TEST_P(WholeModelOfFormat, IsNearItsFloat32TwinAndTheSameInEveryKernelSet) {
  TinyShape shape{.d_model = 256, .key_dim = 64, .value_dim = 64, .matrices = GetParam()};
  for (TinyLayer& layer : shape.layers) layer.ffn_dim = 512;
  const TinyLlama model(shape);
  const std::vector<double> expected = model.Logits(kTokens);
  const std::vector<float> reference =
      LogitsOf(model, {.kernels = "reference", .kv_type = KvType::kF32});
  ASSERT_EQ(reference.size(), expected.size());
  // Float formats differ by rounding; activations of 8 bits cost about a hundredth a layer, and a
  // format computed wrongly is off by as much as the logits are large.
  const double tolerance = IsQuantized(GetParam()) ? 0.05 : 1e-5;
  EXPECT_LT(TypicalDifference(reference, expected), tolerance * Deviation(expected));
  for (const KernelSet* set : AvailableKernels()) {
    for (const int threads : {1, 3}) {
      EXPECT_EQ(LogitsOf(model, {.kernels = std::string(set->name),
                                 .num_threads = threads,
                                 .kv_type = KvType::kF32,
                                 .max_batched_tokens = 5}),
                reference)
          << set->name;
    }
  }
  const std::vector<float> twin = LogitsOf(model.Widened(), {.kv_type = KvType::kF32});
  EXPECT_LT(LargestDifference(twin, expected), 1e-4 * Deviation(expected));
}

INSTANTIATE_TEST_SUITE_P(Formats, WholeModelOfFormat, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(InfoOf(info.param).name); });

TEST_F(WholeModel, HeadsNeedNotShareOutTheWidth) {
  // 4 heads of 32 over a width of 80.
  ExpectExact(TinyLlama({.d_model = 80, .key_dim = 32, .value_dim = 32}));
}

TEST_F(WholeModel, WithoutAHeadSizeTheWidthIsSharedOut) {
  ExpectExact(TinyLlama({.d_model = 80, .key_dim = 20, .value_dim = 20, .names_head_dims = false}));
}

TEST_F(WholeModel, KeysAndValuesMayDifferInSize) {
  ExpectExact(TinyLlama({.key_dim = 64, .value_dim = 32}));
  ExpectExact(TinyLlama({.key_dim = 8, .value_dim = 40}));
}

TEST_F(WholeModel, EveryLayerHasItsOwnHeadsAndWidth) {
  ExpectExact(TinyLlama({.layers = {{4, 2, 48}, {6, 6, 96}, {4, 1, 16}, {8, 4, 33}}}));
}

TEST_F(WholeModel, SizesNeedNotBeMultiplesOfAnything) {
  std::mt19937 random(7);
  for (int i = 0; i < 12; ++i) {
    TinyShape shape{.layers = {},
                    .d_model = 1 + static_cast<int>(random() % 70),
                    .key_dim = 2 + 2 * static_cast<int>(random() % 20),
                    .value_dim = 1 + static_cast<int>(random() % 40),
                    .vocab_size = 64 + static_cast<int>(random() % 20),
                    .seed = static_cast<uint32_t>(random())};
    for (uint32_t layers = 1 + random() % 2; layers > 0; --layers) {
      const int kv_heads = 1 + static_cast<int>(random() % 3);
      shape.layers.push_back({kv_heads * (1 + static_cast<int>(random() % 9)), kv_heads,
                              1 + static_cast<int>(random() % 90)});
    }
    SCOPED_TRACE(fmt::format("shape {}: d_model {} key {} value {}", i, shape.d_model,
                             shape.key_dim, shape.value_dim));
    const TinyLlama model(shape);
    ExpectExact(model);
    EXPECT_EQ(LogitsOf(model), LogitsOf(model, {.kernels = "reference", .num_threads = 3}));
  }
}

TEST_F(WholeModel, ATiedOutputIsTheSameAsItsCopy) {
  const TinyLlama tied({.tied = true});
  ExpectExact(tied);
  TinyLlama copied({.tied = true});
  TinyTensor output = copied.tensor("token_embd.weight");
  output.name = "output.weight";
  copied.AddTensor(output);
  EXPECT_EQ(LogitsOf(copied), LogitsOf(tied));
}

TEST_F(WholeModel, RowsWithoutATokenDoNoHarm) {
  // Rows 40 to 63 have no token; the answer is made of some of them as well.
  const std::filesystem::path path = directory_.path() / "model.gguf";
  ASSERT_TRUE(TinyLlama({.num_tokens = 40}).Write(path));
  const auto engine = MakeTestEngine(path);
  ASSERT_NE(engine, nullptr);
  Request request{
      .prompt = {kTokens.begin(), kTokens.end()}, .max_tokens = 100, .ignore_end_of_text = true};
  request.sampling.seed = 1;
  request.sampling.temperature = 2;
  const auto result = Generate(*engine, request);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const std::vector<int32_t>& tokens = result->choices[0].tokens;
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_TRUE(std::ranges::any_of(tokens, [](int32_t token) { return token >= 40; }));
}

TEST_F(WholeModel, MoreTokensThanRowsAreRefused) {
  const std::filesystem::path path = directory_.path() / "model.gguf";
  ASSERT_TRUE(TinyLlama({.vocab_size = 63}).Write(path));
  const auto engine = ModelRunner::Create(path, {.num_threads = 1});
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().message, ::testing::HasSubstr("64 tokens"));
  EXPECT_THAT(engine.error().message, ::testing::HasSubstr("63 rows"));
}

}  // namespace
}  // namespace quire::testing
