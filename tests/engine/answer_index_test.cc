#include "engine/answer_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <thread>

#include "base/check.h"
#include "engine/prompt_fixture.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using testing::FromTemplate;
using testing::FromUser;
using testing::Root;
using Ids = std::vector<int32_t>;
using Pieces = std::vector<PromptPiece>;

// Id = byte; 256 is "ab", 257 <end>.
class AnswerIndexTest : public ::testing::Test {
 protected:
  AnswerIndexTest() {
    Vocabulary vocabulary = ByteLevelVocabulary({"a b"});
    AddToken(vocabulary, "<end>", TokenKind::kControl);
    auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
    QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
    tokenizer_ = std::move(*tokenizer);
  }

  void Add(const Pieces& prompt, const Ids& prompt_ids, std::string_view text, const Ids& ids,
           uint8_t root = 1) {
    index_.Add(Root(root), *tokenizer_, prompt, prompt_ids, text, ids);
  }
  // The ids, or nothing.
  Ids Find(const Pieces& pieces, uint8_t root = 1) const {
    const auto known = index_.Find(Root(root), pieces);
    return known ? known->ids : Ids();
  }
  // The ids of what is known of an answer to "p".
  Ids KnownOf(std::string_view text, const Ids& ids) {
    AnswerIndex index;
    index.Add(Root(1), *tokenizer_, Pieces{FromUser("p")}, Ids{'p'}, text, ids);
    const auto known = index.Find(Root(1), Pieces{FromUser("p" + std::string(text) + "!")});
    return known ? Ids(known->ids.begin() + 1, known->ids.end()) : Ids();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  AnswerIndex index_;
};

TEST_F(AnswerIndexTest, FindsTheIdsThatWereSampled) {
  Add({FromTemplate("<u>"), FromUser("q")}, {1, 2, 3}, "ab", {'a', 'b', 257});
  const auto known =
      index_.Find(Root(1), Pieces{FromTemplate("<u>"), FromUser("qab"), FromTemplate("<end>")});
  ASSERT_TRUE(known);
  EXPECT_EQ(known->num_bytes, 6u);
  EXPECT_THAT(known->ids, ElementsAre(1, 2, 3, 'a', 'b'));
}

TEST_F(AnswerIndexTest, ATextThatDiffersIsNotFound) {
  Add({FromUser("q")}, {1}, "ab", {256});
  EXPECT_TRUE(Find({FromUser("qa")}).empty());
  EXPECT_TRUE(Find({FromUser("qaB")}).empty());
  EXPECT_TRUE(Find({FromUser("Qab")}).empty());
  EXPECT_TRUE(Find({}).empty());
  EXPECT_EQ(Find({FromUser("qab")}), (Ids{1, 256}));
}

TEST_F(AnswerIndexTest, RootsNeverMeet) {
  Add({FromUser("q")}, {1}, "ab", {256}, 1);
  Add({FromUser("q")}, {1}, "ab", {'a', 'b'}, 2);
  EXPECT_EQ(Find({FromUser("qab")}, 1), (Ids{1, 256}));
  EXPECT_EQ(Find({FromUser("qab")}, 2), (Ids{1, 'a', 'b'}));
  EXPECT_TRUE(Find({FromUser("qab")}, 3).empty());
}

TEST_F(AnswerIndexTest, WhoWroteATextIsPartOfIt) {
  Add({FromTemplate("<u>"), FromUser("q")}, {1}, "ab", {256});
  EXPECT_TRUE(Find({FromUser("<u>qab")}).empty());
  EXPECT_TRUE(Find({FromTemplate("<u>q"), FromUser("ab")}).empty());
  EXPECT_TRUE(Find({FromTemplate("<u>"), FromUser("qa"), FromTemplate("b")}).empty());
  EXPECT_FALSE(Find({FromTemplate("<u>"), FromUser("qab")}).empty());
}

TEST_F(AnswerIndexTest, WhereATextIsCutIntoPiecesDoesNotMatter) {
  Add({FromUser("q"), FromUser("r")}, {1}, "ab", {256});
  EXPECT_EQ(Find({FromUser("qr"), FromTemplate(""), FromUser("a"), FromUser("bc")}), (Ids{1, 256}));
}

TEST_F(AnswerIndexTest, TheLongestBeginningWins) {
  Add({FromUser("q")}, {1}, "ab", {256});
  Add({FromUser("qab"), FromTemplate("."), FromUser("r")}, {1, 256, 2, 3}, "ab", {'a', 'b'});
  EXPECT_EQ(Find({FromUser("qab"), FromTemplate("."), FromUser("rabc")}),
            (Ids{1, 256, 2, 3, 'a', 'b'}));
  EXPECT_EQ(Find({FromUser("qab"), FromTemplate("."), FromUser("x")}), (Ids{1, 256}));
}

TEST_F(AnswerIndexTest, TheNewestIdsOfATextAreKept) {
  Add({FromUser("q")}, {1}, "ab", {256});
  const size_t size_bytes = index_.size_bytes();
  Add({FromUser("q")}, {1}, "ab", {'a', 'b'});
  EXPECT_EQ(Find({FromUser("qab")}), (Ids{1, 'a', 'b'}));
  EXPECT_EQ(index_.size_bytes(), size_bytes + sizeof(int32_t));
}

TEST_F(AnswerIndexTest, AnAnswerCutByAStopStringKeepsWhatLiesWholeInIt) {
  EXPECT_THAT(KnownOf("xa", {'x', 'a', 'b', 'c'}), ElementsAre('x', 'a'));
  // The stop string began in the middle of "ab".
  EXPECT_THAT(KnownOf("xa", {'x', 256}), ElementsAre('x'));
  EXPECT_THAT(KnownOf("a", {256}), ElementsAre());
  EXPECT_THAT(KnownOf("", {'a'}), ElementsAre());
}

TEST_F(AnswerIndexTest, AnAnswerIsKnownUpToARepairedCharacter) {
  EXPECT_THAT(KnownOf("a\xEF\xBF\xBD"
                      "b",
                      {'a', 0xE2, 'b'}),
              ElementsAre('a'));
  // These two bytes begin U+FFFD, which stands in their place.
  EXPECT_THAT(KnownOf("a\xEF\xBF\xBD", {'a', 0xEF, 0xBF}), ElementsAre('a'));
  EXPECT_THAT(KnownOf("a\xEF\xBF\xBD", {'a', 0xEF, 0xBF, 0xBD}),
              ElementsAre('a', 0xEF, 0xBF, 0xBD));
}

TEST_F(AnswerIndexTest, AnAnswerIsKnownUpToItsFirstControlToken) {
  EXPECT_THAT(KnownOf("ab", {'a', 257, 'b'}), ElementsAre('a'));
  EXPECT_THAT(KnownOf("ab", {257, 'a', 'b'}), ElementsAre());
  EXPECT_THAT(KnownOf("ab", {'a', 99999, 'b'}), ElementsAre('a'));
  EXPECT_THAT(KnownOf("ab", {'a', -1}), ElementsAre('a'));
}

TEST_F(AnswerIndexTest, AnAnswerWhoseEndATemplateTrimsIsFoundWithoutIt) {
  Add({FromUser("q")}, {1}, "ab \n\n", {256, ' ', '\n', '\n'});
  EXPECT_EQ(Find({FromUser("qab"), FromTemplate("<end>")}), (Ids{1, 256}));
  EXPECT_EQ(Find({FromUser("qab \n\nc")}), (Ids{1, 256, ' ', '\n', '\n'}));
}

TEST(AnswerIndexSpm, TheSpaceThatIsNotShownBelongsToTheFirstToken) {
  auto tokenizer = SpmTokenizer::Create(SentencePieceVocabulary({"▁", "a", "▁a"}));
  ASSERT_TRUE(tokenizer.ok());
  const TokenId with_space = (*tokenizer)->FindToken("▁a");
  AnswerIndex index;
  index.Add(Root(1), **tokenizer, Pieces{FromTemplate("t")}, Ids{1}, "a a",
            Ids{with_space, with_space});
  const auto known = index.Find(Root(1), Pieces{FromTemplate("t"), FromUser("a a")});
  ASSERT_TRUE(known);
  EXPECT_THAT(known->ids, ElementsAre(1, with_space, with_space));
}

TEST_F(AnswerIndexTest, TheLeastRecentlyUsedGoFirst) {
  Add({FromUser("1")}, {1}, "ab", {256});
  const size_t entry_bytes = index_.size_bytes();
  AnswerIndex small(entry_bytes * 2);
  const auto add = [&](const std::string& prompt) {
    small.Add(Root(1), *tokenizer_, Pieces{FromUser(prompt)}, Ids{1}, "ab", Ids{256});
  };
  const auto is_known = [&](const std::string& prompt) {
    return small.Find(Root(1), Pieces{FromUser(prompt + "ab")}).has_value();
  };
  add("1");
  add("2");
  EXPECT_TRUE(is_known("1"));
  add("3");
  EXPECT_FALSE(is_known("2"));
  EXPECT_TRUE(is_known("1"));
  EXPECT_TRUE(is_known("3"));
  EXPECT_EQ(small.size_bytes(), entry_bytes * 2);
  add(std::string(4096, 'x'));  // does not fit: it takes no other's place
  EXPECT_TRUE(is_known("3"));
  EXPECT_EQ(small.size_bytes(), entry_bytes * 2);
}

// All that was added, gone through one by one.
class SlowIndex {
 public:
  void Add(uint8_t root, const Pieces& text, Ids ids) {
    for (Known& known : all_) {
      if (known.root == root && known.marked == Marked(text)) {
        known.ids = std::move(ids);
        return;
      }
    }
    all_.push_back({root, Marked(text), std::move(ids)});
  }
  Ids Find(uint8_t root, const Pieces& text) const {
    const Known* longest = nullptr;
    for (const Known& known : all_) {
      if (known.root != root || !Marked(text).starts_with(known.marked)) continue;
      if (longest == nullptr || known.marked.size() > longest->marked.size()) longest = &known;
    }
    return longest == nullptr ? Ids() : longest->ids;
  }

 private:
  struct Known {
    uint8_t root = 0;
    std::string marked{};
    Ids ids{};
  };
  // Each byte behind a mark of its origin.
  static std::string Marked(const Pieces& pieces) {
    std::string marked;
    for (const PromptPiece& piece : pieces) {
      for (const char byte : piece.text) (marked += piece.from_template ? 't' : 'u') += byte;
    }
    return marked;
  }
  std::vector<Known> all_;
};

TEST_F(AnswerIndexTest, AgreesWithGoingThroughAllAnswers) {
  std::mt19937 random(3);
  SlowIndex slow;
  int num_found = 0;
  const auto random_pieces = [&](int max_pieces) {
    Pieces pieces;
    for (int left = static_cast<int>(random() % static_cast<uint32_t>(max_pieces)); left >= 0;
         --left) {
      std::string text;
      for (uint32_t bytes = random() % 4; bytes > 0; --bytes) text += "ab"[random() % 2];
      pieces.push_back({text, random() % 2 == 0});
    }
    return pieces;
  };
  for (int round = 0; round < 3000; ++round) {
    const auto root = static_cast<uint8_t>(random() % 3);
    if (random() % 3 == 0) {
      Pieces prompt = random_pieces(3);
      const Ids prompt_ids = {round};
      Add(prompt, prompt_ids, "b", {'b'}, root);
      prompt.push_back(FromUser("b"));
      slow.Add(root, prompt, {round, 'b'});
    } else {
      const Pieces text = random_pieces(6);
      const Ids expected = slow.Find(root, text);
      ASSERT_EQ(Find(text, root), expected) << "round " << round;
      num_found += !expected.empty();
    }
  }
  EXPECT_GT(num_found, 200);
}

// The least processor time of some calls.
template <typename Function>
double CpuSeconds(const Function& function) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double least = 1e9;
  for (int i = 0; i < 7; ++i) {
    const double start = now();
    function();
    least = std::min(least, now() - start);
  }
  return least;
}

TEST_F(AnswerIndexTest, TimeHardlyGrowsWithTheAnswersRemembered) {
  // Answers of 2,000 lengths, each the beginning of one text but for its last byte. Going over the
  // text for each of them would take a thousand times as long as for one.
  const std::string text(40'000, 'x');
  const auto add = [&](AnswerIndex& index, size_t length) {
    index.Add(Root(1), *tokenizer_, Pieces{FromUser(text.substr(0, length))}, Ids{1}, "y",
              Ids{'y'});
  };
  AnswerIndex one;
  AnswerIndex many;
  add(one, text.size() - 1);
  for (size_t length = 20; length < text.size(); length += 20) add(many, length - 1);
  const Pieces pieces = {FromUser(text)};
  const auto find_in = [&](const AnswerIndex& index) {
    return [&] { EXPECT_FALSE(index.Find(Root(1), pieces)); };
  };
  EXPECT_LT(CpuSeconds(find_in(many)), 40 * CpuSeconds(find_in(one)));
}

TEST_F(AnswerIndexTest, ManyThreadsMayUseIt) {
  AnswerIndex index(20'000);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::string prompt = std::to_string((thread + i) % 50);
        index.Add(Root(1), *tokenizer_, Pieces{FromUser(prompt)}, Ids{1}, "ab", Ids{256});
        const auto known = index.Find(Root(1), Pieces{FromUser(prompt + "abc")});
        EXPECT_TRUE(!known || known->ids == (Ids{1, 256}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(index.size_bytes(), 20'000u);
}

}  // namespace
}  // namespace quire
