#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/avx512/kernels.h"
#include "tensor/float16.h"

namespace quire {
namespace {

constexpr int kSpanBlocks = kSpanKeys / kBlockSlots;

// Bytes of one head's keys, or values, in a block.
size_t HeadBytes(KvType type, int dim) { return KvBytes(type, size_t{kBlockSlots} * dim); }

const KernelSet& Reference() { return *AvailableKernels().front(); }

// The sets of this processor, with both attentions of AVX-512 where it has VNNI.
std::span<const KernelSet* const> Sets() {
  static const std::vector<const KernelSet*> sets = [] {
    std::vector<const KernelSet*> all(AvailableKernels().begin(), AvailableKernels().end());
    if (all.back()->attend_span == avx512::AttendSpan) {
      static KernelSet without_vnni = *all.back();
      without_vnni.name = "avx512 without VNNI";
      without_vnni.attend_span = avx512::AttendSpanWithoutVnni;
      all.insert(all.end() - 1, &without_vnni);
    }
    return all;
  }();
  return sets;
}

std::vector<float> Normal(size_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

::testing::AssertionResult SameBits(const std::vector<float>& expected,
                                    const std::vector<float>& got) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::bit_cast<uint32_t>(expected[i]) != std::bit_cast<uint32_t>(got[i])) {
      return ::testing::AssertionFailure() << "element " << i << " of " << expected.size() << ": "
                                           << expected[i] << " and " << got[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// A layer and a sequence of random keys and values, in blocks that are full of NaN otherwise.
struct Shape {
  int num_heads = 4;
  int num_kv_heads = 2;
  int key_dim = 16;
  int value_dim = 16;
  KvType type = KvType::kF16;
  int window = 0;
};

class Fixture {
 public:
  Fixture(const Shape& shape, int num_tokens, uint32_t block_seed = 1)
      : shape_(shape),
        num_tokens_(num_tokens),
        keys_(Normal(static_cast<size_t>(num_tokens) * shape.num_kv_heads * shape.key_dim, 11)),
        values_(Normal(static_cast<size_t>(num_tokens) * shape.num_kv_heads * shape.value_dim, 12)),
        queries_(Normal(static_cast<size_t>(num_tokens) * shape.num_heads * shape.key_dim, 13)) {
    const size_t key_bytes = shape.num_kv_heads * HeadBytes(shape.type, shape.key_dim);
    const size_t value_bytes = shape.num_kv_heads * HeadBytes(shape.type, shape.value_dim);
    layer_ = {.group = 1,
              .num_kv_heads = shape.num_kv_heads,
              .key_dim = shape.key_dim,
              .value_dim = shape.value_dim,
              .key_offset = 64,
              .value_offset = 64 + key_bytes};
    const size_t block_bytes = (64 + key_bytes + value_bytes + 63) / 64 * 64;
    const int num_blocks = (num_tokens + kBlockSlots - 1) / kBlockSlots + 3;
    memory_.assign(num_blocks * block_bytes, std::byte{0xff});  // NaN in every type
    kv_ = {.base = memory_.data(),
           .block_bytes = block_bytes,
           .type = shape.type,
           .layers = {&layer_, 1}};
    table_.resize(num_blocks);
    std::iota(table_.begin(), table_.end(), 0);
    std::ranges::shuffle(table_, std::mt19937(block_seed));
    tables_[1] = table_;
  }

  float* Key(int token, int kv_head) {
    return &keys_[(static_cast<size_t>(token) * shape_.num_kv_heads + kv_head) * shape_.key_dim];
  }
  float* Value(int token, int kv_head) {
    return &values_[(static_cast<size_t>(token) * shape_.num_kv_heads + kv_head) *
                    shape_.value_dim];
  }
  float* Query(int token, int head) {
    return &queries_[(static_cast<size_t>(token) * shape_.num_heads + head) * shape_.key_dim];
  }

  void Store(int begin, int end, const KernelSet& kernels = Reference()) {
    for (int token = begin; token < end; ++token) {
      std::byte* block = kv_.Block(table_[token / kBlockSlots]);
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        EXPECT_TRUE(kernels.store_key(
            Key(token, head), shape_.key_dim, shape_.type, token % kBlockSlots,
            block + layer_.key_offset + head * HeadBytes(shape_.type, shape_.key_dim)));
        EXPECT_TRUE(kernels.store_value(
            Value(token, head), shape_.value_dim, shape_.type, token % kBlockSlots,
            block + layer_.value_offset + head * HeadBytes(shape_.type, shape_.value_dim)));
      }
    }
  }

  // Blocks that lie wholly before `token` are given back.
  void ReleaseBlocksBefore(int token) {
    for (int i = 0; i < token / kBlockSlots; ++i) table_[i] = kNoBlock;
  }

  // Rows begin..end - 1 in one step: [rows][num_heads * value_dim].
  std::vector<float> Attend(const KernelSet& kernels, int num_threads, int begin, int end) {
    const KvSequence sequence{
        .first_row = 0, .num_rows = end - begin, .first_position = begin, .block_tables = tables_};
    return AttendSequences(kernels, num_threads, {sequence}, begin, end - begin);
  }

  std::vector<float> AttendSequences(const KernelSet& kernels, int num_threads,
                                     const std::vector<KvSequence>& sequences, int first_query,
                                     int num_rows) {
    const size_t width = static_cast<size_t>(shape_.num_heads) * shape_.value_dim;
    std::vector<float> out(num_rows * width, std::numeric_limits<float>::quiet_NaN());
    ThreadPool pool(num_threads);
    attention_.Run(kernels, pool,
                   {.queries = Query(first_query, 0),
                    .query_stride = static_cast<size_t>(shape_.num_heads) * shape_.key_dim,
                    .out = out.data(),
                    .out_stride = width,
                    .num_heads = shape_.num_heads,
                    .scale = scale_,
                    .kv = &kv_,
                    .layer = 0,
                    .window = shape_.window,
                    .sequences = sequences});
    return out;
  }

  // What the cache holds of a head [dim].
  std::vector<double> Stored(const float* head, int dim) const {
    std::vector<double> stored(head, head + dim);
    if (shape_.type == KvType::kQ8_0) {
      for (int i = 0; i < dim; ++i) {
        const double scale = ScaleOfGroup(head, i);
        stored[i] = std::nearbyint(stored[i] / scale) * scale;
      }
    }
    for (double& x : stored) {
      const auto single = static_cast<float>(x);
      if (shape_.type == KvType::kF16) x = F16ToF32(F32ToF16(single));
      if (shape_.type == KvType::kBF16) x = Bf16ToF32(F32ToBf16(single));
    }
    return stored;
  }

  // The query as scores see it, scaled: q8_0 takes eight bits of it.
  std::vector<double> ScaledQuery(int token, int head) {
    std::vector<float> scaled(Query(token, head), Query(token, head) + shape_.key_dim);
    for (float& x : scaled) x *= scale_;
    std::vector<double> seen(scaled.begin(), scaled.end());
    if (shape_.type != KvType::kQ8_0) return seen;
    for (int i = 0; i < shape_.key_dim; ++i) {
      const double absmax = AbsMaxOfGroup(scaled.data(), i);
      seen[i] = std::nearbyint(seen[i] * 127.0 / absmax) * absmax / 127.0;
    }
    return seen;
  }

  // Softmax attention of one row and head in double precision: [value_dim].
  std::vector<double> Naive(int token, int head) {
    const int kv_head = KvHeadOf(head);
    const std::vector<double> weights = NaiveWeights(token, head);
    std::vector<double> out(shape_.value_dim);
    for (int key = 0; key <= token; ++key) {
      const std::vector<double> stored = Stored(Value(key, kv_head), shape_.value_dim);
      for (int d = 0; d < shape_.value_dim; ++d) out[d] += weights[key] * stored[d];
    }
    return out;
  }

  // What may be lost of that where q8_0 rounds the weights of each span and group to 0..255 of the
  // largest: less than a step for each value. [value_dim]
  std::vector<double> LostToRounding(int token, int head) {
    std::vector<double> lost(shape_.value_dim);
    if (shape_.type != KvType::kQ8_0) return lost;
    const int kv_head = KvHeadOf(head);
    const std::vector<double> weights = NaiveWeights(token, head);
    for (int start = 0; start <= token; start += kSpanKeys) {
      const int end = std::min(token + 1, start + kSpanKeys);
      for (int d = 0; d < shape_.value_dim; ++d) {
        double largest = 0;
        double magnitudes = 0;
        for (int key = start; key < end; ++key) {
          const double scale = ScaleOfGroup(Value(key, kv_head), d);
          largest = std::max(largest, weights[key] * scale);
          magnitudes += std::abs(std::nearbyint(Value(key, kv_head)[d] / scale));
        }
        lost[d] += largest / 255 * magnitudes;
      }
    }
    return lost;
  }

  // The weights of all keys up to a row's own, which add up to 1.
  std::vector<double> NaiveWeights(int token, int head) {
    const int kv_head = KvHeadOf(head);
    const int first = shape_.window > 0 ? std::max(0, token - shape_.window + 1) : 0;
    const std::vector<double> query = ScaledQuery(token, head);
    std::vector<double> scores;
    for (int key = first; key <= token; ++key) {
      const std::vector<double> stored = Stored(Key(key, kv_head), shape_.key_dim);
      scores.push_back(std::inner_product(query.begin(), query.end(), stored.begin(), 0.0));
    }
    const double maximum = *std::ranges::max_element(scores);
    std::vector<double> weights(token + 1);
    double sum = 0;
    for (int key = first; key <= token; ++key) {
      weights[key] = std::exp(scores[key - first] - maximum);
      sum += weights[key];
    }
    for (double& weight : weights) weight /= sum;
    return weights;
  }

  std::span<const std::span<const int32_t>> tables() const { return tables_; }
  const Shape& shape() const { return shape_; }

 private:
  static float AbsMaxOfGroup(const float* head, int i) {
    const float* group = head + i / kKvScaleGroup * kKvScaleGroup;
    float absmax = 0;
    for (int j = 0; j < kKvScaleGroup; ++j) absmax = std::max(absmax, std::abs(group[j]));
    return absmax;
  }
  static double ScaleOfGroup(const float* head, int i) {
    return F16ToF32(F32ToF16(AbsMaxOfGroup(head, i) / 127.0f));
  }
  int KvHeadOf(int head) const { return head / (shape_.num_heads / shape_.num_kv_heads); }

  Shape shape_;
  int num_tokens_;
  float scale_ = 0.25f;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<float> queries_;
  KvLayer layer_;
  std::vector<std::byte> memory_;
  PagedKvView kv_;
  std::vector<int32_t> table_;
  std::span<const int32_t> tables_[2];
  Attention attention_;
};

// Tiles within a row and across rows, tails of keys and dimensions, windows inside a span and over
// several.
std::vector<Shape> Shapes() {
  return {{4, 2, 16, 16, KvType::kF16, 0},   {3, 3, 8, 24, KvType::kF32, 0},
          {12, 2, 64, 64, KvType::kF16, 0},  {7, 1, 20, 37, KvType::kF16, 0},
          {14, 2, 32, 128, KvType::kF16, 0}, {4, 1, 48, 80, KvType::kF16, 100},
          {5, 5, 16, 7, KvType::kF32, 17},   {2, 1, 33, 130, KvType::kF32, 300},
          {9, 3, 64, 64, KvType::kF16, 1},   {1, 1, 1, 1, KvType::kF16, 0},
          {6, 2, 80, 80, KvType::kBF16, 0},  {5, 1, 33, 21, KvType::kBF16, 60},
          {4, 2, 32, 32, KvType::kQ8_0, 0},  {12, 2, 64, 96, KvType::kQ8_0, 0},
          {7, 1, 96, 64, KvType::kQ8_0, 50}, {6, 1, 128, 128, KvType::kQ8_0, 0}};
}

std::string Describe(const Shape& shape) {
  return fmt::format("{} heads, {} key heads, {} x {}, {}, window {}", shape.num_heads,
                     shape.num_kv_heads, shape.key_dim, shape.value_dim, NameOf(shape.type),
                     shape.window);
}

TEST(Attention, EverySetAndThreadCountGivesTheBitsOfTheReference) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(Describe(shape));
    Fixture fixture(shape, 290);
    fixture.Store(0, 290);
    const std::vector<float> expected = fixture.Attend(Reference(), 1, 0, 290);
    for (const KernelSet* kernels : Sets()) {
      if (kernels == &Reference()) continue;
      SCOPED_TRACE(std::string(kernels->name));
      for (const int num_threads : {1, 2, 5}) {
        ASSERT_TRUE(SameBits(expected, fixture.Attend(*kernels, num_threads, 0, 290)))
            << num_threads << " threads";
      }
    }
  }
}

TEST(Attention, IsCloseToASoftmaxInDoublePrecision) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(Describe(shape));
    Fixture fixture(shape, 290);
    fixture.Store(0, 290);
    const std::vector<float> out = fixture.Attend(*Sets().back(), 2, 0, 290);
    for (const int token : {0, 1, 15, 16, 17, 127, 128, 129, 255, 256, 289}) {
      for (int head = 0; head < shape.num_heads; ++head) {
        const std::vector<double> expected = fixture.Naive(token, head);
        const std::vector<double> lost = fixture.LostToRounding(token, head);
        for (int d = 0; d < shape.value_dim; ++d) {
          const size_t column = static_cast<size_t>(head) * shape.value_dim + d;
          const size_t width = static_cast<size_t>(shape.num_heads) * shape.value_dim;
          ASSERT_NEAR(out[token * width + column], expected[d], 5e-6 + lost[d])
              << "token " << token << " head " << head << " dimension " << d;
        }
      }
    }
  }
}

// Of the length of an output, over values that have nothing in common.
TEST(Attention, RoundingTheWeightsOfQ8CostsAnOutputTwoPercentAtMost) {
  const Shape shape{.num_heads = 6, .key_dim = 128, .value_dim = 128, .type = KvType::kQ8_0};
  Fixture fixture(shape, 290);
  fixture.Store(0, 290);
  const std::vector<float> out = fixture.Attend(*Sets().back(), 2, 0, 290);
  for (const int token : {100, 127, 128, 200, 289}) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const std::vector<double> expected = fixture.Naive(token, head);
      const float* got = &out[static_cast<size_t>(token * shape.num_heads + head) * 128];
      double error = 0;
      double length = 0;
      for (int d = 0; d < 128; ++d) {
        error += (got[d] - expected[d]) * (got[d] - expected[d]);
        length += expected[d] * expected[d];
      }
      EXPECT_LT(std::sqrt(error / length), 0.02) << "token " << token << " head " << head;
    }
  }
}

TEST(Attention, ChunksAndSingleTokensEqualTheWholePromptBitForBit) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(Describe(shape));
    const KernelSet& kernels = *Sets().back();
    const int num_tokens = 280;
    Fixture whole(shape, num_tokens);
    whole.Store(0, num_tokens);
    const std::vector<float> expected = whole.Attend(kernels, 2, 0, num_tokens);
    // Tokens after a chunk are not stored yet: their slots are NaN.
    for (const std::vector<int>& cuts :
         {std::vector<int>{1, 2, 64, 127, 128, 129, 200}, std::vector<int>{16, 130, 256}}) {
      Fixture chunked(shape, num_tokens, 99);
      std::vector<float> got;
      int begin = 0;
      std::vector<int> ends = cuts;
      for (int end = cuts.back() + 1; end <= num_tokens; ++end) ends.push_back(end);
      for (const int end : ends) {
        chunked.Store(begin, end);
        const std::vector<float> rows = chunked.Attend(kernels, 1 + begin % 3, begin, end);
        got.insert(got.end(), rows.begin(), rows.end());
        begin = end;
      }
      ASSERT_EQ(got.size(), expected.size());
      ASSERT_TRUE(SameBits(expected, got));
    }
  }
}

TEST(Attention, ABatchOfSequencesEqualsEachAlone) {
  const Shape shape{.num_heads = 6, .num_kv_heads = 2, .key_dim = 24, .value_dim = 40};
  Fixture fixture(shape, 300);
  fixture.Store(0, 300);
  const KernelSet& kernels = *Sets().back();
  // The same blocks, seen by sequences at different places: rows 0..2, 3 and 4..8 of a step.
  const auto sequence = [&](int first_row, int num_rows, int position) {
    return KvSequence{first_row, num_rows, position, fixture.tables()};
  };
  const std::vector<float> batch = fixture.AttendSequences(
      kernels, 2, {sequence(0, 3, 126), sequence(3, 1, 299), sequence(4, 5, 0)}, 0, 9);
  const size_t width = static_cast<size_t>(shape.num_heads) * shape.value_dim;
  const auto rows = [&](int begin, int end) {
    return std::vector<float>(batch.begin() + begin * width, batch.begin() + end * width);
  };
  EXPECT_TRUE(
      SameBits(fixture.AttendSequences(kernels, 1, {sequence(0, 3, 126)}, 0, 3), rows(0, 3)));
  EXPECT_TRUE(
      SameBits(fixture.AttendSequences(kernels, 1, {sequence(0, 1, 299)}, 3, 1), rows(3, 4)));
  EXPECT_TRUE(SameBits(fixture.AttendSequences(kernels, 1, {sequence(0, 5, 0)}, 4, 5), rows(4, 9)));
}

TEST(Attention, SharersOfAPrefixEqualEachAlone) {
  std::mt19937 random(7);
  const KernelSet& kernels = *Sets().back();
  for (int round = 0; round < 60; ++round) {
    const int num_kv_heads = 1 + static_cast<int>(random() % 2);
    const int heads_per_kv = 1 + round % 7;
    const Shape shape{.num_heads = num_kv_heads * heads_per_kv,
                      .num_kv_heads = num_kv_heads,
                      .key_dim = 32,
                      .value_dim = 32,
                      .type = kKvTypes[round % kKvTypes.size()],
                      .window = round % 5 == 0 ? 300 : 0};
    SCOPED_TRACE(fmt::format("round {}, {}", round, Describe(shape)));
    constexpr int kNumTokens = 800;
    Fixture fixture(shape, kNumTokens);
    fixture.Store(0, kNumTokens);
    // Sequences of two families, which part from them after some blocks; any block will do as any
    // other, for keys do not know their position.
    const std::span<const int32_t> stored = fixture.tables()[1].first(kNumTokens / kBlockSlots);
    const int num_sequences = 2 + static_cast<int>(random() % 14);
    std::vector<std::vector<int32_t>> tables;
    std::vector<std::array<std::span<const int32_t>, 2>> groups(num_sequences);
    std::vector<KvSequence> sequences;
    int num_rows = 0;
    for (int i = 0; i < num_sequences; ++i) {
      std::vector<int32_t>& table = tables.emplace_back(stored.begin(), stored.end());
      if (i % 3 == 0) std::ranges::reverse(table);
      const auto parting = table.begin() + static_cast<int>(random() % table.size());
      std::shuffle(parting, table.end(), random);
    }
    for (int i = 0; i < num_sequences; ++i) {
      groups[i][1] = tables[i];
      const int rows = round % 4 == 0 && i % 5 == 0 ? 9 : 1;
      const int position = static_cast<int>(random() % (kNumTokens - rows));
      sequences.push_back({num_rows, rows, position, groups[i]});
      num_rows += rows;
    }
    const size_t width = static_cast<size_t>(shape.num_heads) * shape.value_dim;
    const std::vector<float> batch =
        fixture.AttendSequences(kernels, 1 + round % 3, sequences, 0, num_rows);
    for (const KvSequence& sequence : sequences) {
      KvSequence alone = sequence;
      alone.first_row = 0;
      const std::vector<float> expected =
          fixture.AttendSequences(kernels, 1, {alone}, sequence.first_row, sequence.num_rows);
      const auto begin = batch.begin() + static_cast<ptrdiff_t>(sequence.first_row * width);
      ASSERT_TRUE(SameBits(expected, {begin, begin + static_cast<ptrdiff_t>(expected.size())}));
    }
  }
}

TEST(Attention, LongContextsMergeTheirSpansInOrderWhateverTheWaves) {
  // 40 spans of 8 key heads are more than one wave of partials.
  const Shape shape{.num_heads = 8, .num_kv_heads = 8, .key_dim = 4, .value_dim = 8};
  const int num_tokens = 40 * kSpanKeys;
  Fixture fixture(shape, num_tokens);
  fixture.Store(0, num_tokens);
  const std::vector<float> expected = fixture.Attend(Reference(), 1, num_tokens - 1, num_tokens);
  for (const KernelSet* kernels : Sets()) {
    for (const int num_threads : {1, 3}) {
      EXPECT_TRUE(
          SameBits(expected, fixture.Attend(*kernels, num_threads, num_tokens - 1, num_tokens)));
    }
  }
  const std::vector<double> naive = fixture.Naive(num_tokens - 1, 5);
  for (int d = 0; d < shape.value_dim; ++d) EXPECT_NEAR(expected[5 * 8 + d], naive[d], 5e-6);
}

// Attention dies on an entry of kNoBlock that it would read.
TEST(Attention, AWindowNeverTouchesTheBlocksBeforeIt) {
  for (const KvType type : kKvTypes) {
    for (const int window : {1, 17, 50, 128, 200}) {
      const Shape shape{.key_dim = 32, .value_dim = 32, .type = type, .window = window};
      SCOPED_TRACE(Describe(shape));
      Fixture fixture(shape, 400);
      fixture.Store(0, 400);
      const KernelSet& kernels = *Sets().back();
      // A chunk, and then single tokens across the start of a block.
      for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
               {300, 380}, {380, 381}, {383, 384}, {384, 385}, {399, 400}}) {
        const std::vector<float> expected = fixture.Attend(kernels, 1, begin, end);
        fixture.ReleaseBlocksBefore(begin - window + 1);
        ASSERT_TRUE(SameBits(expected, fixture.Attend(kernels, 2, begin, end))) << begin;
      }
    }
  }
}

TEST(AttentionDeathTest, AHoleThatIsAttendedIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Fixture fixture({.window = 50}, 200);
  fixture.Store(0, 200);
  fixture.ReleaseBlocksBefore(176);
  EXPECT_DEATH(fixture.Attend(Reference(), 1, 199, 200), "block 9 is attended and not there");
}

TEST(Attention, AKeyThatStandsOutIsTheOnlyOneSeen) {
  for (const KernelSet* kernels : Sets()) {
    const Shape shape{.num_heads = 1, .num_kv_heads = 1, .key_dim = 2, .value_dim = 3};
    Fixture fixture(shape, 200);
    for (int token = 0; token < 200; ++token) {
      // The query (1000, 0) scores 250 * key[0]; token 77 wins by 2,500, so that others weigh 0.
      fixture.Key(token, 0)[0] = token == 77 ? 10.0f : 0.0f;
      for (int d = 0; d < 3; ++d) fixture.Value(token, 0)[d] = static_cast<float>(10 * token + d);
    }
    fixture.Query(199, 0)[0] = 1000.0f;
    fixture.Query(199, 0)[1] = 0.0f;
    fixture.Query(50, 0)[0] = 0.0f;
    fixture.Query(50, 0)[1] = 0.0f;
    fixture.Store(0, 200, *kernels);
    EXPECT_EQ(fixture.Attend(*kernels, 1, 199, 200), (std::vector<float>{770, 771, 772}));
    // Equal scores: the mean of 0, 10, ..., 500.
    const std::vector<float> mean = fixture.Attend(*kernels, 1, 50, 51);
    EXPECT_NEAR(mean[0], 250.0, 1e-4);
    EXPECT_NEAR(mean[2], 252.0, 1e-4);
  }
}

// One span, by the kernel alone.
struct SpanResult {
  std::vector<float> maxima;
  std::vector<float> sums;
  std::vector<float> values;
};

SpanResult AttendSpan(const KernelSet& kernels, AttentionSpanJob job) {
  SpanResult result;
  result.maxima.resize(job.num_queries, -5.0f);
  result.sums.resize(job.num_queries, -5.0f);
  result.values.resize(static_cast<size_t>(job.num_queries) * job.value_dim, -5.0f);
  job.maxima = result.maxima.data();
  job.sums = result.sums.data();
  job.values = result.values.data();
  kernels.attend_span(job);
  return result;
}

// Rows [num_queries][key_dim] as bytes.
struct QuantizedQueries {
  std::vector<int8_t> quants;
  std::vector<float> scales;
  std::vector<float> scaled_sums;
  std::vector<int32_t> negated_sums;
  QuantizedRows rows;

  QuantizedQueries(const std::vector<float>& queries, int num_queries)
      : quants(queries.size()),
        scales(queries.size() / kGroupColumns),
        scaled_sums(scales.size()),
        negated_sums(2 * scales.size()) {
    if (queries.empty()) return;
    const int key_dim = static_cast<int>(queries.size()) / num_queries;
    rows = {num_queries,        key_dim, quants.data(), scales.data(), scaled_sums.data(),
            negated_sums.data()};
    EXPECT_TRUE(Reference().quantize_rows(queries.data(), key_dim, &rows));
  }
};

TEST(AttendSpan, AnyMixOfKeyRangesIsTheSameInEverySet) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const KvType type = kKvTypes[random() % kKvTypes.size()];
    const int num_queries = 1 + round % kMaxSpanQueries;
    const bool grouped = type == KvType::kQ8_0;
    const int key_dim = static_cast<int>(grouped ? 32 * (1 + random() % 4) : 1 + random() % 40);
    const int value_dim = static_cast<int>(grouped ? 32 * (1 + random() % 8) : 1 + random() % 150);
    const std::vector<float> queries = Normal(key_dim * num_queries, round, 2.0f);
    const QuantizedQueries quantized(grouped ? queries : std::vector<float>{}, num_queries);
    std::vector<int> first(num_queries);
    std::vector<int> end(num_queries);
    bool needed[kSpanKeys] = {};
    for (int q = 0; q < num_queries; ++q) {
      first[q] = static_cast<int>(random() % kSpanKeys);
      end[q] = first[q] + static_cast<int>(random() % (kSpanKeys + 1 - first[q]));
      if (round % 5 == 0) end[q] = first[q] + std::min(end[q] - first[q], 3);
      for (int key = first[q]; key < end[q]; ++key) needed[key] = true;
    }
    // Blocks with a needed key exist; slots that nobody needs are NaN.
    const size_t key_bytes = HeadBytes(type, key_dim);
    const size_t value_bytes = HeadBytes(type, value_dim);
    std::vector<std::byte> keys(kSpanBlocks * key_bytes, std::byte{0xff});
    std::vector<std::byte> values(kSpanBlocks * value_bytes, std::byte{0xff});
    const std::byte* key_blocks[kSpanBlocks] = {};
    const std::byte* value_blocks[kSpanBlocks] = {};
    for (int key = 0; key < kSpanKeys; ++key) {
      if (!needed[key]) continue;
      const size_t block = key / kBlockSlots;
      std::byte* block_keys = &keys[block * key_bytes];
      std::byte* block_values = &values[block * value_bytes];
      key_blocks[block] = block_keys;
      value_blocks[block] = block_values;
      // In some rounds every product underflows, so that the signs of zeros are at stake.
      const float spread = round % 6 == 0 ? 1e-45f : 1.0f;
      // Groups of zeros, of denormal scales, and of scales near the largest half.
      const float key_spread = (round + key) % 7 == 0   ? 0.0f
                               : (round + key) % 7 == 1 ? 1e-5f
                               : round % 11 == 0        ? 1e4f
                                                        : 1.0f;
      ASSERT_TRUE(Reference().store_key(Normal(key_dim, key, key_spread).data(), key_dim, type,
                                        key % kBlockSlots, block_keys));
      ASSERT_TRUE(Reference().store_value(Normal(value_dim, key, spread).data(), value_dim, type,
                                          key % kBlockSlots, block_values));
    }
    const AttentionSpanJob job{.queries = queries.data(),
                               .quantized = &quantized.rows,
                               .num_queries = num_queries,
                               .key_dim = key_dim,
                               .value_dim = value_dim,
                               .type = type,
                               .key_blocks = key_blocks,
                               .value_blocks = value_blocks,
                               .first_key = first.data(),
                               .end_key = end.data()};
    const SpanResult expected = AttendSpan(Reference(), job);
    for (int q = 0; q < num_queries; ++q) {
      if (first[q] < end[q]) continue;
      EXPECT_EQ(expected.maxima[q], -std::numeric_limits<float>::infinity());
      EXPECT_EQ(expected.sums[q], 0.0f);
      EXPECT_EQ(expected.values[static_cast<size_t>(q) * value_dim], 0.0f);
    }
    for (const KernelSet* kernels : Sets()) {
      SCOPED_TRACE(fmt::format("round {} {}", round, kernels->name));
      const SpanResult got = AttendSpan(*kernels, job);
      EXPECT_EQ(expected.maxima, got.maxima);
      EXPECT_TRUE(SameBits(expected.sums, got.sums));
      ASSERT_TRUE(SameBits(expected.values, got.values));
    }
  }
}

// Slots that no query attends may hold anything: never written, or a draft that was refused.
TEST(AttendSpan, BytesAndScalesOfKeysThatAreNotAttendedDoNotMatter) {
  constexpr int kDim = 64;
  constexpr int kNumQueries = 3;
  constexpr int kFirst[kNumQueries] = {5, 0, 20};
  constexpr int kEnd[kNumQueries] = {30, 9, 20};
  const std::vector<float> queries = Normal(kDim * kNumQueries, 1);
  const QuantizedQueries quantized(queries, kNumQueries);
  const size_t head_bytes = HeadBytes(KvType::kQ8_0, kDim);
  std::vector<std::byte> keys(2 * head_bytes);
  std::vector<std::byte> values(2 * head_bytes);
  const std::byte* key_blocks[kSpanBlocks] = {keys.data(), &keys[head_bytes]};
  const std::byte* value_blocks[kSpanBlocks] = {values.data(), &values[head_bytes]};
  const auto attend = [&](const KernelSet& kernels, uint16_t garbage) {
    for (std::vector<std::byte>* bytes : {&keys, &values}) {
      for (size_t i = 0; i < bytes->size(); i += 2) std::memcpy(&(*bytes)[i], &garbage, 2);
    }
    for (int key = 0; key < 30; ++key) {
      const size_t block = key / kBlockSlots * head_bytes;
      EXPECT_TRUE(kernels.store_key(Normal(kDim, key).data(), kDim, KvType::kQ8_0,
                                    key % kBlockSlots, &keys[block]));
      EXPECT_TRUE(kernels.store_value(Normal(kDim, 99 + key).data(), kDim, KvType::kQ8_0,
                                      key % kBlockSlots, &values[block]));
    }
    return AttendSpan(kernels, {.queries = queries.data(),
                                .quantized = &quantized.rows,
                                .num_queries = kNumQueries,
                                .key_dim = kDim,
                                .value_dim = kDim,
                                .type = KvType::kQ8_0,
                                .key_blocks = key_blocks,
                                .value_blocks = value_blocks,
                                .first_key = kFirst,
                                .end_key = kEnd});
  };
  const SpanResult expected = attend(Reference(), 0);
  // As halves: infinities, not a number, the largest and a negative one.
  for (const uint16_t garbage : {0x7c00, 0xfc00, 0x7e01, 0xffff, 0x7bff, 0xbc00}) {
    for (const KernelSet* kernels : Sets()) {
      SCOPED_TRACE(fmt::format("{:x} {}", garbage, kernels->name));
      const SpanResult got = attend(*kernels, garbage);
      EXPECT_EQ(expected.maxima, got.maxima);
      EXPECT_TRUE(SameBits(expected.sums, got.sums));
      EXPECT_TRUE(SameBits(expected.values, got.values));
    }
  }
}

TEST(AttendSpan, TheBytesOfWeightsInQ8ReadByEye) {
  // A query of zeros weighs all keys 1, so that the bytes are those of the scales 2, 1 and 2^-8
  // over 2: 255, 127.5 and 0.498, that the dither of keys 0 to 2 (-0.496, 0.004 and -0.246) brings
  // to 255, 128 and 0. In the second group all is zero.
  constexpr int kFirst[1] = {0};
  constexpr int kEnd[1] = {3};
  const std::vector<float> query(32, 0.0f);
  const QuantizedQueries quantized(query, 1);
  for (const KernelSet* kernels : Sets()) {
    std::vector<std::byte> keys(HeadBytes(KvType::kQ8_0, 32));
    std::vector<std::byte> values(HeadBytes(KvType::kQ8_0, 64));
    const float scales[3] = {2.0f, 1.0f, 0x1p-8f};
    for (int key = 0; key < 3; ++key) {
      std::vector<float> value(64, 0.0f);
      value[0] = 127.0f * scales[key];
      value[1] = -3.0f * scales[key];
      value[31] = static_cast<float>(key) * scales[key];
      ASSERT_TRUE(kernels->store_key(query.data(), 32, KvType::kQ8_0, key, keys.data()));
      ASSERT_TRUE(kernels->store_value(value.data(), 64, KvType::kQ8_0, key, values.data()));
    }
    const std::byte* key_blocks[kSpanBlocks] = {keys.data()};
    const std::byte* value_blocks[kSpanBlocks] = {values.data()};
    const SpanResult result = AttendSpan(*kernels, {.queries = query.data(),
                                                    .quantized = &quantized.rows,
                                                    .num_queries = 1,
                                                    .key_dim = 32,
                                                    .value_dim = 64,
                                                    .type = KvType::kQ8_0,
                                                    .key_blocks = key_blocks,
                                                    .value_blocks = value_blocks,
                                                    .first_key = kFirst,
                                                    .end_key = kEnd});
    EXPECT_EQ(result.sums[0], 3.0f);
    constexpr float kScale = 2.0f / 255.0f;
    EXPECT_EQ(result.values[0], kScale * (127 * (255 + 128)));
    EXPECT_EQ(result.values[1], kScale * (-3 * (255 + 128)));
    EXPECT_EQ(result.values[2], 0.0f);
    EXPECT_EQ(result.values[31], kScale * 128);
    for (int d = 32; d < 64; ++d) EXPECT_EQ(result.values[d], 0.0f);
  }
}

TEST(AttendSpan, ManySmallWeightsOfQ8KeepTheirSumBesideALargeOne) {
  // Key 0 weighs 1 and the others 0.3 steps of 255 each, which would all round to 0.
  constexpr int kFirst[1] = {0};
  constexpr int kEnd[1] = {kSpanKeys};
  const float small = 0.3f / 255.0f;
  std::vector<float> query(32, 0.0f);
  query[0] = 1.0f;
  const QuantizedQueries quantized(query, 1);
  const size_t head_bytes = HeadBytes(KvType::kQ8_0, 32);
  for (const KernelSet* kernels : Sets()) {
    std::vector<std::byte> keys(kSpanBlocks * head_bytes);
    std::vector<std::byte> values(kSpanBlocks * head_bytes);
    const std::byte* key_blocks[kSpanBlocks];
    const std::byte* value_blocks[kSpanBlocks];
    for (int key = 0; key < kSpanKeys; ++key) {
      const size_t block = key / kBlockSlots;
      key_blocks[block] = &keys[block * head_bytes];
      value_blocks[block] = &values[block * head_bytes];
      std::vector<float> stored(32, 0.0f);
      stored[0] = key == 0 ? -std::log(small) : 0.0f;
      ASSERT_TRUE(kernels->store_key(stored.data(), 32, KvType::kQ8_0, key % kBlockSlots,
                                     &keys[block * head_bytes]));
      stored[0] = key == 0 ? 1.0f : 0.0f;
      stored[1] = key == 0 ? 0.0f : 1.0f;
      ASSERT_TRUE(kernels->store_value(stored.data(), 32, KvType::kQ8_0, key % kBlockSlots,
                                       &values[block * head_bytes]));
    }
    const SpanResult result = AttendSpan(*kernels, {.queries = query.data(),
                                                    .quantized = &quantized.rows,
                                                    .num_queries = 1,
                                                    .key_dim = 32,
                                                    .value_dim = 32,
                                                    .type = KvType::kQ8_0,
                                                    .key_blocks = key_blocks,
                                                    .value_blocks = value_blocks,
                                                    .first_key = kFirst,
                                                    .end_key = kEnd});
    EXPECT_NEAR(result.values[0], 1.0f, 1e-3f);
    EXPECT_NEAR(result.values[1], 127 * small, 0.03f * 127 * small);
  }
}

TEST(AttendSpan, SumsAndMaximaReadByEye) {
  // Keys 3, 4 and 5 score 2, 2 and 2 - ln 2 (nearly); key 6 would win and is not attended.
  constexpr int kFirst[1] = {3};
  constexpr int kEnd[1] = {6};
  const float query[1] = {1.0f};
  for (const KernelSet* kernels : Sets()) {
    alignas(64) float keys[kBlockSlots] = {9, 9, 9, 2, 2, 1.30685282f, 50};
    alignas(64) float values[kBlockSlots] = {7, 7, 7, 1, 2, 4, 7};
    const std::byte* key_blocks[8] = {reinterpret_cast<const std::byte*>(keys)};
    const std::byte* value_blocks[8] = {reinterpret_cast<const std::byte*>(values)};
    const SpanResult result = AttendSpan(*kernels, {.queries = query,
                                                    .num_queries = 1,
                                                    .key_dim = 1,
                                                    .value_dim = 1,
                                                    .type = KvType::kF32,
                                                    .key_blocks = key_blocks,
                                                    .value_blocks = value_blocks,
                                                    .first_key = kFirst,
                                                    .end_key = kEnd});
    EXPECT_EQ(result.maxima[0], 2.0f);
    EXPECT_FLOAT_EQ(result.sums[0], 2.5f);
    EXPECT_FLOAT_EQ(result.values[0], 5.0f);
  }
}

TEST(MergeSpan, EqualMaximaAddUpAndFarOnesVanish) {
  for (const KernelSet* kernels : Sets()) {
    // One query meets a span of its own maximum, the other one of a far larger.
    float maxima[2] = {1.0f, 1.0f};
    float sums[2] = {2.0f, 2.0f};
    std::vector<float> values[2] = {std::vector<float>(19, 3.0f), std::vector<float>(19, 3.0f)};
    float* const rows[2] = {values[0].data(), values[1].data()};
    const float span_maxima[2] = {1.0f, 200.0f};
    const float span_sums[2] = {5.0f, 5.0f};
    const std::vector<float> span_values(2 * 19, 4.0f);
    kernels->merge_span({.num_queries = 2,
                         .value_dim = 19,
                         .span_maxima = span_maxima,
                         .span_sums = span_sums,
                         .span_values = span_values.data(),
                         .maxima = maxima,
                         .sums = sums,
                         .values = rows});
    EXPECT_EQ(maxima[0], 1.0f);
    EXPECT_EQ(sums[0], 7.0f);
    EXPECT_EQ(values[0], std::vector<float>(19, 7.0f));
    EXPECT_EQ(maxima[1], 200.0f);
    EXPECT_EQ(sums[1], 5.0f);
    EXPECT_EQ(values[1], std::vector<float>(19, 4.0f));
    kernels->finish_attention(rows[1], 8.0f, 19);
    EXPECT_EQ(values[1], std::vector<float>(19, 0.5f));
  }
}

TEST(MergeSpan, EverySetGivesTheBitsOfTheReferenceForEachNumberOfQueries) {
  for (int n = 1; n <= kMaxSpanQueries; ++n) {
    for (const int dim : {1, 16, 37, 64}) {
      const std::vector<float> span = Normal(static_cast<size_t>(n) * (2 + dim), n, 3.0f);
      const std::vector<float> before = Normal(static_cast<size_t>(n) * (2 + dim), 50 + n, 3.0f);
      const auto merge = [&](const KernelSet& kernels) {
        std::vector<float> merged = before;  // maxima, sums, values
        std::vector<float*> rows(n);
        for (int q = 0; q < n; ++q) rows[q] = &merged[2 * n + q * dim];
        kernels.merge_span({.num_queries = n,
                            .value_dim = dim,
                            .span_maxima = &span[0],
                            .span_sums = &span[n],
                            .span_values = &span[2 * n],
                            .maxima = &merged[0],
                            .sums = &merged[n],
                            .values = rows.data()});
        return merged;
      };
      const std::vector<float> expected = merge(Reference());
      for (const KernelSet* kernels : Sets()) {
        EXPECT_TRUE(SameBits(expected, merge(*kernels))) << kernels->name << " " << n << " " << dim;
      }
    }
  }
}

TEST(StoreKv, EverySetStoresTheBytesOfTheReference) {
  std::mt19937 random(8);
  for (const KvType type : kKvTypes) {
    for (int dim = 1; dim <= 160; ++dim) {
      if (!CanStore(type, dim)) continue;
      std::vector<float> row(dim);
      // Every magnitude; in q8_0 by group, for a group has one scale.
      float largest = 65519.0f;
      for (int i = 0; i < dim; ++i) {
        if (i % kKvScaleGroup == 0)
          largest = std::ldexp(65519.0f, -static_cast<int>(random() % 45));
        row[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
        if (!(std::abs(row[i]) < largest))
          row[i] = largest * 1e-5f * static_cast<float>(random() % 60000);
      }
      const int slot = dim % kBlockSlots;
      std::vector<std::byte> expected(HeadBytes(type, dim), std::byte{0x5a});
      std::vector<std::byte> expected_values = expected;
      ASSERT_TRUE(Reference().store_key(row.data(), dim, type, slot, expected.data()));
      ASSERT_TRUE(Reference().store_value(row.data(), dim, type, slot, expected_values.data()));
      for (const KernelSet* kernels : Sets()) {
        std::vector<std::byte> got(expected.size(), std::byte{0x5a});
        ASSERT_TRUE(kernels->store_key(row.data(), dim, type, slot, got.data()));
        ASSERT_EQ(expected, got) << kernels->name << " keys " << dim;
        got.assign(expected.size(), std::byte{0x5a});
        ASSERT_TRUE(kernels->store_value(row.data(), dim, type, slot, got.data()));
        ASSERT_EQ(expected_values, got) << kernels->name << " values " << dim;
      }
    }
  }
}

TEST(StoreKv, Bf16RoundsToNearestAndTiesToEven) {
  const float row[] = {1.0f,       0x1.01p0f, 0x1.03p0f,   0x1.010002p0f,
                       -0x1.01p0f, 0x1p-133f, 0x1.8p-134f, 0.0f};
  const uint16_t expected[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf80, 0x0001, 0x0001, 0x0000};
  for (const KernelSet* kernels : Sets()) {
    uint16_t block[kBlockSlots * 8] = {};
    ASSERT_TRUE(
        kernels->store_value(row, 8, KvType::kBF16, 0, reinterpret_cast<std::byte*>(block)));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(block[i], expected[i]) << kernels->name << " " << i;
  }
}

TEST(StoreKv, AGroupOfQ8HasOneScaleAndReadsByEye) {
  // The largest magnitude is 254: a scale of 2, and 3 lies between 1 and 2 quanta, 5 between 2
  // and 3.
  std::vector<float> row(64, 0.0f);
  row[0] = -254.0f;
  row[1] = 3.0f;
  row[2] = 5.0f;
  row[31] = 4.0f;
  // Below half of the smallest half, the scale is 0; at the smallest it clamps what is too large.
  row[32] = 127 * 0x1.6p-24f;
  row[33] = -0x1p-24f;
  for (const KernelSet* kernels : Sets()) {
    std::vector<std::byte> block(HeadBytes(KvType::kQ8_0, 64), std::byte{0x5a});
    ASSERT_TRUE(kernels->store_value(row.data(), 64, KvType::kQ8_0, 15, block.data()));
    // Each group's last four slots, of which it is the last.
    const auto* quants = reinterpret_cast<const int8_t*>(block.data()) + 12 * 32 + 3;
    EXPECT_EQ(quants[0], -127);
    EXPECT_EQ(quants[4], 2);  // 1.5, to even
    EXPECT_EQ(quants[8], 2);  // 2.5, to even
    EXPECT_EQ(quants[4 * 31], 2);
    EXPECT_EQ(quants[16 * 32], 127);  // 174.6
    EXPECT_EQ(quants[16 * 32 + 4], -1);
    EXPECT_EQ(quants[-1], 0x5a);
    const auto* scales = reinterpret_cast<const uint16_t*>(block.data() + 16 * 64);
    EXPECT_EQ(F16ToF32(scales[15]), 2.0f);
    EXPECT_EQ(scales[16 + 15], 1);
    EXPECT_EQ(scales[16 + 14], 0x5a5a);

    row[32] = 127 * 0x1p-25f;  // a tie, to even
    ASSERT_TRUE(kernels->store_key(row.data(), 64, KvType::kQ8_0, 1, block.data()));
    const auto* keys = reinterpret_cast<const int8_t*>(block.data());
    EXPECT_EQ(keys[4], -127);
    EXPECT_EQ(keys[5], 2);
    EXPECT_EQ(keys[8 * 64 + 4], 0);
    EXPECT_EQ(reinterpret_cast<const uint16_t*>(block.data() + 16 * 64)[16 + 1], 0);
    row[32] = 127 * 0x1.6p-24f;
  }
}

TEST(StoreKv, RefusesWhatTheTypeCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet* kernels : Sets()) {
    for (const int position : {0, 15, 16, 36}) {
      const auto stores = [&](KvType type, float value) {
        const int dim = type == KvType::kQ8_0 ? 64 : 37;
        std::vector<float> row(dim, 1.0f);
        row[position] = value;
        std::vector<std::byte> block(HeadBytes(type, dim));
        const bool key = kernels->store_key(row.data(), dim, type, 5, block.data());
        const bool also = kernels->store_value(row.data(), dim, type, 5, block.data());
        EXPECT_EQ(key, also);
        return key;
      };
      EXPECT_TRUE(stores(KvType::kF16, 65519.0f));   // rounds to 65504
      EXPECT_FALSE(stores(KvType::kF16, 65520.0f));  // rounds to infinity
      EXPECT_FALSE(stores(KvType::kF16, -70000.0f));
      EXPECT_FALSE(stores(KvType::kF16, nan));
      EXPECT_TRUE(stores(KvType::kBF16, 0x1.fefffep127f));
      EXPECT_FALSE(stores(KvType::kBF16, 0x1.ffp127f));  // rounds to infinity
      EXPECT_FALSE(stores(KvType::kBF16, -infinity));
      EXPECT_FALSE(stores(KvType::kBF16, nan));
      EXPECT_TRUE(stores(KvType::kQ8_0, -127 * 65519.0f));
      EXPECT_FALSE(stores(KvType::kQ8_0, 127 * 65520.0f));  // the scale rounds to infinity
      EXPECT_FALSE(stores(KvType::kQ8_0, infinity));
      EXPECT_FALSE(stores(KvType::kQ8_0, nan));
      EXPECT_TRUE(stores(KvType::kF32, -3e38f));
      EXPECT_FALSE(stores(KvType::kF32, infinity));
      EXPECT_FALSE(stores(KvType::kF32, -infinity));
      EXPECT_FALSE(stores(KvType::kF32, nan));
    }
  }
}

}  // namespace
}  // namespace quire
