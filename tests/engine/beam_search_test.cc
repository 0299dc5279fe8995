#include "engine/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

// Highest first, equals in the order in which they stood: sorting by insertion.
template <typename Item, typename Value>
void SortDescending(std::vector<Item>& items, const Value& value) {
  for (auto item = items.begin(); item != items.end(); ++item) {
    const auto place =
        std::upper_bound(items.begin(), item, *item,
                         [&](const Item& a, const Item& b) { return value(a) > value(b); });
    std::rotate(place, item, item + 1);
  }
}

// Next-token log-probabilities that depend on the token before and the position.
class RandomTable {
 public:
  RandomTable(int vocab_size, uint32_t seed) : vocab_size_(vocab_size), random_(seed) {
    for (int i = 0; i < kPositions * (vocab_size + 1); ++i) {
      std::vector<double> weights;
      double sum = 0;
      for (int token = 0; token < vocab_size; ++token) {
        weights.push_back(std::exp(3.0 * std::uniform_real_distribution<>(-1, 1)(random_)));
        sum += weights.back();
      }
      for (double& weight : weights) weight = std::log(weight / sum);
      rows_.push_back(std::move(weights));
    }
  }

  int vocab_size() const { return vocab_size_; }
  double LogProb(const Ids& before, int32_t token) const {
    return RowAfter(before)[static_cast<size_t>(token)];
  }
  std::vector<TokenLogProb> Candidates(const Ids& before, int count) const {
    std::vector<TokenLogProb> best;
    for (int32_t token = 0; token < vocab_size_; ++token) {
      best.push_back({token, LogProb(before, token)});
    }
    SortDescending(best, [](const TokenLogProb& item) { return item.log_prob; });
    best.resize(std::min(best.size(), static_cast<size_t>(count)));
    return best;
  }

 private:
  static constexpr int kPositions = 8;
  const std::vector<double>& RowAfter(const Ids& before) const {
    const size_t last = before.empty() ? 0 : static_cast<size_t>(before.back()) + 1;
    return rows_[before.size() % kPositions * static_cast<size_t>(vocab_size_ + 1) + last];
  }

  int vocab_size_;
  std::mt19937 random_;
  std::vector<std::vector<double>> rows_;
};

struct Search {
  std::vector<BeamAnswer> answers{};
  int num_steps = 0;
};

Search RunSearch(const RandomTable& table, const BeamSearchOptions& options, int count) {
  BeamSearch search(options);
  std::vector<Ids> live(1);
  Search result;
  while (!search.is_over()) {
    std::vector<std::vector<TokenLogProb>> candidates;
    for (const Ids& beam : live) {
      candidates.push_back(table.Candidates(beam, search.num_candidates()));
    }
    const std::vector<BeamExtension> extensions = search.Advance(candidates);
    std::vector<Ids> next;
    for (const BeamExtension& extension : extensions) {
      next.push_back(live[static_cast<size_t>(extension.parent)]);
      next.back().push_back(extension.token);
    }
    live = std::move(next);
    EXPECT_EQ(live.size(), search.is_over() ? 0u : static_cast<size_t>(search.num_live()));
    ++result.num_steps;
  }
  result.answers = search.Finish(count, FinishReason::kAborted);
  return result;
}

bool IsEnd(int32_t token) { return token == 0; }

double SlowScore(double cumulative, size_t length, double penalty) {
  double power = 1;
  for (int i = 0; i < static_cast<int>(penalty); ++i) power *= static_cast<double>(length);
  return cumulative / power;
}

// Every answer there is, by going through all of them.
void Enumerate(const RandomTable& table, const BeamSearchOptions& options, const Ids& before,
               double cumulative, std::vector<BeamAnswer>& answers) {
  for (int32_t token = 0; token < table.vocab_size(); ++token) {
    const bool is_end = IsEnd(token);
    if (is_end && static_cast<int>(before.size()) < options.min_tokens) continue;
    Ids tokens = before;
    tokens.push_back(token);
    const double sum = cumulative + table.LogProb(before, token);
    if (is_end || static_cast<int>(tokens.size()) == options.max_tokens) {
      answers.push_back({.tokens = tokens,
                         .cumulative_log_prob = sum,
                         .score = SlowScore(sum, tokens.size(), options.beams.length_penalty),
                         .finish_reason = is_end ? FinishReason::kStop : FinishReason::kLength});
    } else {
      Enumerate(table, options, tokens, sum, answers);
    }
  }
}

std::vector<BeamAnswer> BestOf(std::vector<BeamAnswer> answers, size_t count) {
  SortDescending(answers, [](const BeamAnswer& item) { return item.score; });
  answers.resize(std::min(answers.size(), count));
  return answers;
}

// The rules of the header, always to the end: it never stops because nothing can improve.
std::vector<BeamAnswer> SearchWithoutPruning(const RandomTable& table,
                                             const BeamSearchOptions& options) {
  struct Beam {
    Ids tokens{};
    double sum = 0;
  };
  const auto width = static_cast<size_t>(options.beams.width);
  std::vector<Beam> live(1);
  std::vector<BeamAnswer> answers;
  for (int length = 1; length <= options.max_tokens && !live.empty(); ++length) {
    std::vector<Beam> all;
    for (const Beam& beam : live) {
      for (const TokenLogProb& best : table.Candidates(beam.tokens, 2 * options.beams.width)) {
        if (IsEnd(best.token) && length <= options.min_tokens) continue;
        all.push_back({beam.tokens, beam.sum + best.log_prob});
        all.back().tokens.push_back(best.token);
      }
    }
    SortDescending(all, [](const Beam& item) { return item.sum; });
    live.clear();
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const bool is_end = IsEnd(all[rank].tokens.back());
      if (is_end && rank < width) {
        answers.push_back({.tokens = all[rank].tokens,
                           .cumulative_log_prob = all[rank].sum,
                           .score = SlowScore(all[rank].sum, all[rank].tokens.size(),
                                              options.beams.length_penalty),
                           .finish_reason = FinishReason::kStop});
      } else if (!is_end && live.size() < width) {
        live.push_back(all[rank]);
      }
    }
  }
  for (const Beam& beam : live) {
    answers.push_back(
        {.tokens = beam.tokens,
         .cumulative_log_prob = beam.sum,
         .score = SlowScore(beam.sum, beam.tokens.size(), options.beams.length_penalty),
         .finish_reason = FinishReason::kLength});
  }
  return BestOf(std::move(answers), width);
}

void ExpectSame(const std::vector<BeamAnswer>& got, const std::vector<BeamAnswer>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(got[i].cumulative_log_prob, expected[i].cumulative_log_prob) << i;
    EXPECT_EQ(got[i].score, expected[i].score) << i;
    EXPECT_EQ(got[i].finish_reason, expected[i].finish_reason) << i;
  }
}

TEST(BeamSearch, AsWideAsThereAreAnswersFindsTheBestOfAll) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (const double penalty : {0.0, 1.0, 2.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " penalty " << penalty);
      const RandomTable table(4, seed);
      const BeamSearchOptions options{.beams = {.width = 1024, .length_penalty = penalty},
                                      .max_tokens = 4,
                                      .min_tokens = static_cast<int>(seed % 3),
                                      .ends_answer = IsEnd};
      std::vector<BeamAnswer> all;
      Enumerate(table, options, {}, 0, all);
      ExpectSame(RunSearch(table, options, 5).answers, BestOf(all, 5));
    }
  }
}

TEST(BeamSearch, StopsEarlyWithoutLosingAnAnswer) {
  int num_stopped_early = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const RandomTable table(5, seed);
    for (const double penalty : {0.0, 1.0, 2.0}) {
      const BeamSearchOptions options{
          .beams = {.width = 1 + static_cast<int>(seed % 4), .length_penalty = penalty},
          .max_tokens = 12,
          .min_tokens = static_cast<int>(seed % 2) * 3,
          .ends_answer = IsEnd};
      SCOPED_TRACE(testing::Message() << "seed " << seed << " penalty " << penalty);
      const Search search = RunSearch(table, options, options.beams.width);
      ExpectSame(search.answers, SearchWithoutPruning(table, options));
      num_stopped_early += search.num_steps < options.max_tokens;
    }
  }
  EXPECT_GT(num_stopped_early, 200);
}

TEST(BeamSearch, ANegativePenaltyPrefersShortAnswersAndStillLosesNone) {
  // Of one token with -1: -1 * 1; of two with -1.2: -1.2 * 2. The bound is the next length.
  BeamSearch search({.beams = {.width = 1, .length_penalty = -1},
                     .max_tokens = 8,
                     .min_tokens = 0,
                     .ends_answer = IsEnd});
  EXPECT_THAT(search.Advance(std::vector<std::vector<TokenLogProb>>{{{0, -1.0}, {1, -1.2}}}),
              IsEmpty());
  EXPECT_TRUE(search.is_over());
  EXPECT_THAT(search.Finish(1, FinishReason::kAborted).at(0).tokens, ElementsAre(0));
}

using Candidates = std::vector<std::vector<TokenLogProb>>;

TEST(BeamSearch, ALongerAnswerWinsWithAPenaltyAndAShorterOneWithout) {
  for (const double penalty : {0.0, 1.0}) {
    BeamSearch search({.beams = {.width = 2, .length_penalty = penalty},
                       .max_tokens = 2,
                       .min_tokens = 0,
                       .ends_answer = IsEnd});
    ASSERT_EQ(search.Advance(Candidates{{{0, -1.0}, {1, -1.0}}}).size(), 1u);
    search.Advance(Candidates{{{0, -0.5}}});
    const auto answers = search.Finish(2, FinishReason::kAborted);
    // -1 / 1 against -1.5 / 2.
    EXPECT_EQ(answers.at(0).tokens, penalty == 0 ? Ids({0}) : Ids({1, 0}));
    EXPECT_EQ(answers.at(0).score, penalty == 0 ? -1.0 : -0.75);
  }
}

TEST(BeamSearch, EarlyStoppingEndsWithTheAnswersThereAre) {
  for (const bool early_stopping : {true, false}) {
    BeamSearch search({.beams = {.width = 1, .length_penalty = 1, .early_stopping = early_stopping},
                       .max_tokens = 10,
                       .min_tokens = 0,
                       .ends_answer = IsEnd});
    // A longer answer may still have more than -1 a token.
    const auto extensions = search.Advance(Candidates{{{0, -1.0}, {1, -1.1}}});
    EXPECT_EQ(search.is_over(), early_stopping);
    EXPECT_EQ(extensions.size(), early_stopping ? 0u : 1u);
  }
}

TEST(BeamSearch, TiesGoToTheLowerBeamThenTheLowerToken) {
  BeamSearch search({.beams = {.width = 2}, .max_tokens = 3, .min_tokens = 0, .ends_answer = {}});
  auto extensions = search.Advance(Candidates{{{5, -1.0}, {3, -1.0}, {4, -1.0}}});
  ASSERT_EQ(extensions.size(), 2u);
  EXPECT_EQ(extensions[0].token, 3);
  EXPECT_EQ(extensions[1].token, 4);
  extensions = search.Advance(Candidates{{{9, -1.0}}, {{2, -1.0}, {7, -1.0}}});
  ASSERT_EQ(extensions.size(), 2u);
  EXPECT_EQ(extensions[0].parent, 0);
  EXPECT_EQ(extensions[0].token, 9);
  EXPECT_EQ(extensions[1].parent, 1);
  EXPECT_EQ(extensions[1].token, 2);
}

TEST(BeamSearch, AnEndBelowTheFirstWidthProposalsIsNotTaken) {
  BeamSearch search(
      {.beams = {.width = 1}, .max_tokens = 3, .min_tokens = 0, .ends_answer = IsEnd});
  EXPECT_EQ(search.Advance(Candidates{{{1, -0.5}, {0, -0.9}}}).at(0).token, 1);
  const auto answers = search.Finish(1, FinishReason::kTimeout);
  EXPECT_THAT(answers.at(0).tokens, ElementsAre(1));
  EXPECT_EQ(answers.at(0).finish_reason, FinishReason::kTimeout);
}

TEST(BeamSearch, MinTokensKeepsAnswersFromEnding) {
  BeamSearch search({.beams = {.width = 1, .length_penalty = 0},
                     .max_tokens = 5,
                     .min_tokens = 2,
                     .ends_answer = IsEnd});
  EXPECT_EQ(search.Advance(Candidates{{{0, -0.1}, {1, -3.0}}}).at(0).token, 1);
  EXPECT_EQ(search.Advance(Candidates{{{0, -0.1}, {1, -3.0}}}).at(0).token, 1);
  EXPECT_THAT(search.Advance(Candidates{{{0, -0.1}, {1, -3.0}}}), IsEmpty());
  EXPECT_THAT(search.Finish(1, FinishReason::kAborted).at(0).tokens, ElementsAre(1, 1, 0));
}

TEST(BeamSearch, WhereNothingMayFollowTheBeamsAreTheAnswers) {
  BeamSearch search(
      {.beams = {.width = 2}, .max_tokens = 5, .min_tokens = 3, .ends_answer = IsEnd});
  ASSERT_EQ(search.Advance(Candidates{{{1, -1.0}}}).size(), 1u);
  EXPECT_THAT(search.Advance(Candidates{{{0, -0.1}}}), IsEmpty());
  EXPECT_TRUE(search.is_over());
  const auto answers = search.Finish(2, FinishReason::kLength);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(answers[0].tokens, ElementsAre(1));
  EXPECT_EQ(answers[0].finish_reason, FinishReason::kLength);
}

TEST(BeamSearch, CutShortBeforeItsFirstStepGivesAnEmptyAnswer) {
  BeamSearch search(
      {.beams = {.width = 3}, .max_tokens = 5, .min_tokens = 0, .ends_answer = IsEnd});
  const auto answers = search.Finish(3, FinishReason::kAborted);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(answers[0].tokens, IsEmpty());
  EXPECT_EQ(answers[0].score, 0.0);
}

TEST(BeamSearch, ScoresAreNumbersAtTheEdges) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double penalty : {-1000.0, -1.0, 0.0, 0.5, 3.0, 1000.0}) {
    BeamSearch search({.beams = {.width = 2, .length_penalty = penalty},
                       .max_tokens = 3,
                       .min_tokens = 0,
                       .ends_answer = IsEnd});
    // A certain token, and impossible ones, which are passed over.
    ASSERT_EQ(search.Advance(Candidates{{{1, 0.0}, {2, -kInfinity}}}).size(), 1u);
    search.Advance(Candidates{{{0, 0.0}, {1, 0.0}}});
    for (const BeamAnswer& answer : search.Finish(2, FinishReason::kAborted)) {
      EXPECT_EQ(answer.score, 0.0) << penalty;
    }
  }
}

}  // namespace
}  // namespace quire
