// Prompts in pieces, and random ones that come back with their answers.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/prompt_encoder.h"

namespace quire::testing {

inline Digest Root(uint8_t number) {
  Digest root{};
  root[0] = number;
  return root;
}

inline PromptPiece FromTemplate(std::string text) { return {std::move(text), true}; }
inline PromptPiece FromUser(std::string text) { return {std::move(text), false}; }

// Characters of one to four bytes, white space and digits among them.
inline std::string RandomText(std::mt19937& random, int max_characters) {
  static const std::vector<std::string> kCharacters = {
      "a",  "b", "c", "ab", "the", " ",  " ",  "\n", "1",  "23",    ".",     ",",
      "'s", "<", "é", "ö",  "日",  "本", "🙂", "  ", "\t", "Hello", " world"};
  std::string text;
  for (int left = static_cast<int>(random() % static_cast<uint32_t>(max_characters + 1)); left > 0;
       --left) {
    text += kCharacters[random() % kCharacters.size()];
  }
  return text;
}

// Ids of this text as a model might sample them: cut in places that the tokenizer would not choose.
inline std::vector<int32_t> RandomIds(const Tokenizer& tokenizer, std::string_view text,
                                      std::mt19937& random) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    size_t num_bytes = 0;
    for (uint32_t left = 1 + random() % 3; left > 0 && num_bytes < text.size(); --left) {
      num_bytes += static_cast<size_t>(FirstCharacter(text.substr(num_bytes)).num_bytes);
    }
    const PromptPiece part = FromUser(std::string(text.substr(0, num_bytes)));
    const std::vector<int32_t> part_ids = tokenizer.EncodeRest({&part, 1});
    ids.insert(ids.end(), part_ids.begin(), part_ids.end());
    text.remove_prefix(num_bytes);
  }
  return ids;
}

// Random prompts, answers and what follows: the ids begin with those of prompt and answer, and say
// the same text. The vocabulary spells every byte.
inline void ExpectAnswersComeBackAsTheirIds(const Tokenizer& tokenizer, int num_rounds) {
  std::mt19937 random(7);
  for (int round = 0; round < num_rounds; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    AnswerIndex index;
    std::vector<PromptPiece> pieces = {FromTemplate("Q: "), FromUser(RandomText(random, 8)),
                                       FromTemplate(RandomText(random, 3))};
    std::vector<int32_t> prompt_ids = EncodePrompt(tokenizer, &index, Root(1), pieces);
    for (int turn = 0; turn < 3; ++turn) {
      const std::string answer = "A" + RandomText(random, 12) + "z";
      const std::vector<int32_t> answer_ids = RandomIds(tokenizer, answer, random);
      index.Add(Root(1), tokenizer, pieces, prompt_ids, answer, answer_ids);
      pieces.push_back(FromUser(answer));
      pieces.push_back(FromTemplate(RandomText(random, 2)));
      pieces.push_back(FromUser(RandomText(random, 8)));
      std::string text;
      for (const PromptPiece& piece : pieces) text += piece.text;

      std::vector<int32_t> expected = prompt_ids;
      expected.insert(expected.end(), answer_ids.begin(), answer_ids.end());
      prompt_ids = EncodePrompt(tokenizer, &index, Root(1), pieces);
      ASSERT_GE(prompt_ids.size(), expected.size());
      EXPECT_EQ(std::vector<int32_t>(prompt_ids.begin(),
                                     prompt_ids.begin() + static_cast<ptrdiff_t>(expected.size())),
                expected);
      EXPECT_EQ(tokenizer.Decode(prompt_ids), text);
    }
  }
}

}  // namespace quire::testing
