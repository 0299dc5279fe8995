// A vocabulary of all bytes for tests of bodies: tokens 0 to 255 are bytes, then "<bos>" and
// "<eos>", which are control tokens, and "ab".
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/openai/request.h"
#include "text/bpe_tokenizer.h"
#include "text/byte_alphabet.h"

namespace quire {

inline constexpr int32_t kBos = 256;
inline constexpr int32_t kEos = 257;
inline constexpr int32_t kAb = 258;

inline std::unique_ptr<Tokenizer> ByteTokenizer() {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "default";
  for (const std::string& spelling : ByteSpellings()) {
    vocabulary.tokens.push_back(spelling);
    vocabulary.kinds.push_back(TokenKind::kNormal);
  }
  for (const char* text : {"<bos>", "<eos>"}) {
    vocabulary.tokens.push_back(text);
    vocabulary.kinds.push_back(TokenKind::kControl);
  }
  vocabulary.tokens.push_back("ab");
  vocabulary.kinds.push_back(TokenKind::kNormal);
  vocabulary.merges.push_back("a b");
  auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return std::move(tokenizer).value();
}

class BodyTest : public ::testing::Test {
 protected:
  BodyTest() : tokenizer_(ByteTokenizer()) {
    for (int32_t id = 0; id < 256; ++id) {
      bytes_[static_cast<uint8_t>(tokenizer_->TokenBytes(id)[0])] = id;
    }
  }

  // The token of one byte.
  int32_t Byte(uint8_t byte) const { return bytes_[byte]; }
  std::vector<int32_t> Bytes(std::string_view text) const {
    std::vector<int32_t> ids;
    for (const char byte : text) ids.push_back(Byte(static_cast<uint8_t>(byte)));
    return ids;
  }

  static OpenAiRequest Parse(OpenAiEndpoint endpoint, const std::string& text) {
    auto parsed = ParseOpenAiRequest(endpoint, text);
    QUIRE_CHECK(std::holds_alternative<OpenAiRequest>(parsed), "{}",
                std::get<ApiError>(parsed).message);
    return std::get<OpenAiRequest>(std::move(parsed));
  }
  static OpenAiRequest Chat(const std::string& members = R"("n":1)") {
    return Parse(OpenAiEndpoint::kChatCompletions,
                 R"({"messages":[{"role":"user","content":"x"}],)" + members + "}");
  }
  static OpenAiRequest Completion(const std::string& members = R"("n":1)") {
    return Parse(OpenAiEndpoint::kCompletions, R"({"prompt":"ab",)" + members + "}");
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  int32_t bytes_[256] = {};
};

}  // namespace quire
