#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pre_tokenizer.h"

#include <pcre2.h>

#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct NamedPatterns {
  std::string_view name;
  std::array<std::string_view, 4> patterns{};  // the empty ones are not there
  bool normalizes_nfc = false;
  bool whole_words_first = false;
  bool adds_bos = false;
};

// Each of these takes linear time: no alternative looks further ahead than the run of characters
// that the match then takes (all of it but one).
constexpr NamedPatterns kNamedPatterns[] = {
    {.name = "default",
     .patterns = {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", R"([0-9][0-9][0-9])"}},
    {.name = "gpt-2", .patterns = {kGpt2}},
    {.name = "llama-bpe",
     .patterns = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     .whole_words_first = true,
     .adds_bos = true},
    {.name = "qwen2",
     .patterns = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     .normalizes_nfc = true},
    {.name = "smollm", .patterns = {R"(\p{N})", kGpt2}},
};

constexpr size_t kJitStackStartBytes = 32 << 10;
constexpr size_t kJitStackMaxBytes = 512 << 10;
constexpr uint32_t kMatchLimit = 200'000'000;
constexpr uint32_t kHeapLimitKib = 64 << 10;

// One stack a thread for compiled patterns; they never nest.
pcre2_jit_stack* ThreadJitStack(void*) {
  struct Owner {
    pcre2_jit_stack* stack =
        pcre2_jit_stack_create(kJitStackStartBytes, kJitStackMaxBytes, nullptr);
    ~Owner() { pcre2_jit_stack_free(stack); }
  };
  thread_local Owner owner;
  return owner.stack;
}

// PCRE2's own \s also takes U+180E, which is not White_Space since Unicode 6.3.
std::string WithUnicodeSpaces(std::string_view pattern) {
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view pair = pattern.substr(i, 2);
    if (pair == R"(\s)" || pair == R"(\S)") {
      result += pair == R"(\s)" ? R"(\p{White_Space})" : R"(\P{White_Space})";
      ++i;
    } else if (pattern[i] == '\\' && pair.size() == 2) {
      result += pair;
      ++i;
    } else {
      result += pattern[i];
    }
  }
  return result;
}

}  // namespace

// One compiled pattern with its limits.
class PreTokenizer::Pattern {
 public:
  static Result<std::unique_ptr<Pattern>> Compile(std::string_view text) {
    const std::string pattern = WithUnicodeSpaces(text);
    int code = 0;
    size_t offset = 0;
    pcre2_code* compiled =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr);
    if (compiled == nullptr) {
      std::array<PCRE2_UCHAR, 256> message{};
      pcre2_get_error_message(code, message.data(), message.size());
      return MakeError(ErrorCode::kInvalidArgument,
                       "pre-tokenizer pattern '{}': {} at byte {} of '{}'", text,
                       reinterpret_cast<const char*>(message.data()), offset, pattern);
    }
    // Where executable memory is refused, pcre2_match interprets the pattern.
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return std::unique_ptr<Pattern>(new Pattern(compiled));
  }

  ~Pattern() {
    pcre2_match_context_free(context_);
    pcre2_code_free(code_);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  void Cut(std::string_view text, std::vector<std::string_view>& words) const {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    QUIRE_CHECK(data != nullptr, "out of memory");
    size_t done = 0;
    while (done < text.size() && Match(text, done, data)) {
      const size_t* bounds = pcre2_get_ovector_pointer(data);
      // A \K in a custom pattern may report a match that begins before `done`.
      if (bounds[0] < done || bounds[1] <= bounds[0]) break;
      if (bounds[0] > done) words.push_back(text.substr(done, bounds[0] - done));
      words.push_back(text.substr(bounds[0], bounds[1] - bounds[0]));
      done = bounds[1];
    }
    if (done < text.size()) words.push_back(text.substr(done));
    pcre2_match_data_free(data);
  }

 private:
  explicit Pattern(pcre2_code* code) : code_(code), context_(pcre2_match_context_create(nullptr)) {
    QUIRE_CHECK(context_ != nullptr, "out of memory");
    pcre2_set_match_limit(context_, kMatchLimit);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
    pcre2_jit_stack_assign(context_, ThreadJitStack, nullptr);
  }

  // The text is known to be valid: without NO_UTF_CHECK each call would check all of it again.
  bool Match(std::string_view text, size_t from, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    constexpr uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int code = pcre2_match(code_, subject, text.size(), from, kOptions, data, context_);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
      code =
          pcre2_match(code_, subject, text.size(), from, kOptions | PCRE2_NO_JIT, data, context_);
    }
    return code > 0;
  }

  pcre2_code* code_;
  pcre2_match_context* context_;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  std::string known;
  for (const NamedPatterns& named : kNamedPatterns) {
    if (named.name != name) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", named.name);
      continue;
    }
    std::vector<std::string> patterns;
    for (const std::string_view pattern : named.patterns) {
      if (!pattern.empty()) patterns.emplace_back(pattern);
    }
    QUIRE_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, FromPatterns(patterns));
    pre_tokenizer.normalizes_nfc_ = named.normalizes_nfc;
    pre_tokenizer.whole_words_first_ = named.whole_words_first;
    pre_tokenizer.adds_bos_ = named.adds_bos;
    return pre_tokenizer;
  }
  return MakeError(ErrorCode::kUnsupported,
                   "tokenizer.ggml.pre is '{}'; the pre-tokenizers that Quire knows are {}", name,
                   known);
}

Result<PreTokenizer> PreTokenizer::FromPatterns(std::span<const std::string> patterns) {
  PreTokenizer pre_tokenizer;
  for (const std::string& text : patterns) {
    QUIRE_ASSIGN_OR_RETURN(auto pattern, Pattern::Compile(text));
    pre_tokenizer.patterns_.push_back(std::move(pattern));
  }
  return pre_tokenizer;
}

std::vector<std::string_view> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> words;
  if (!text.empty()) words.push_back(text);
  for (const auto& pattern : patterns_) {
    std::vector<std::string_view> cut;
    cut.reserve(words.size());
    for (const std::string_view word : words) pattern->Cut(word, cut);
    words = std::move(cut);
  }
  return words;
}

}  // namespace quire
