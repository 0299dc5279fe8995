// How tokens are drawn, and what ends an answer.
#include <algorithm>
#include <charconv>

#include "formats/printable.h"
#include "server/openai/fields.h"

namespace quire {

using jinja::Value;

void ReadSampling(BodyReader& reader, const OpenAiLimits& limits, SamplingParameters& sampling) {
  Assign(sampling.temperature, reader.Number("temperature", 0, 2));
  Assign(sampling.top_p, reader.Number("top_p", 0, 1));
  Assign(sampling.top_k, reader.Int("top_k", -1, kMaxIntField));
  Assign(sampling.min_p, reader.Number("min_p", 0, 1));
  // 0.01 as a float is what Validate accepts.
  Assign(sampling.repetition_penalty, reader.Number("repetition_penalty", 0.01, 100));
  Assign(sampling.presence_penalty, reader.Number("presence_penalty", -2, 2));
  Assign(sampling.frequency_penalty, reader.Number("frequency_penalty", -2, 2));
  if (const auto seed = reader.Int("seed", INT64_MIN, INT64_MAX)) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  const jinja::Dict* biases = reader.Object("logit_bias");
  if (biases == nullptr) return;
  const int64_t highest = limits.vocab_size > 0 ? limits.vocab_size - 1 : kMaxIntField;
  for (const auto& [key, value] : biases->entries()) {
    const std::string& text = key.Text();
    int64_t token = -1;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, token);
    if (parsed.ec != std::errc() || parsed.ptr != end || token < 0 || token > highest) {
      return reader.Fail("logit_bias", fmt::format("must have token ids from 0 to {} as keys, "
                                                   "got '{}'",
                                                   highest, Printable(text, 40)));
    }
    const bool is_number = value.IsInt() || value.IsFloat();
    const double bias = is_number ? value.NumberAsFloat() : 0;
    if (!is_number || !(bias >= -100 && bias <= 100)) {
      return reader.Fail("logit_bias", fmt::format("of token {} must be a number from -100 to 100, "
                                                   "got {}",
                                                   token, DescribeJson(value)));
    }
    sampling.logit_bias[static_cast<int32_t>(token)] = static_cast<float>(bias);
  }
}

void ReadBans(BodyReader& reader, const OpenAiLimits& limits, OpenAiRequest& body) {
  if (const auto* ids = reader.List("allowed_token_ids")) {
    auto& allowed = body.request.sampling.allowed_token_ids;
    if (ids->empty()) reader.Fail("allowed_token_ids", "must not be empty: nothing could be said");
    if (limits.vocab_size > 0 && ids->size() > static_cast<size_t>(limits.vocab_size)) {
      return reader.Fail("allowed_token_ids", fmt::format("may hold {} ids at most, got {}",
                                                          limits.vocab_size, ids->size()));
    }
    const auto fault = ReadTokenIds(*ids, limits.vocab_size, allowed);
    if (fault) reader.Fail("allowed_token_ids", *fault);
  }
  const auto* words = reader.List("bad_words");
  if (words == nullptr) return;
  if (words->size() > limits.max_bad_words) {
    return reader.Fail("bad_words", fmt::format("may hold {} strings at most, got {}",
                                                limits.max_bad_words, words->size()));
  }
  for (const Value& word : *words) {
    if (!word.IsString()) {
      return reader.Fail("bad_words", "must hold strings alone, got " + DescribeJson(word),
                         "invalid_type");
    }
    const std::string& text = word.Text();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      return reader.Fail("bad_words", "must not hold a string that is empty or space alone");
    }
    if (text.size() > limits.max_word_bytes) {
      return reader.Fail("bad_words", fmt::format("may hold strings of {} bytes at most, got {}",
                                                  limits.max_word_bytes, text.size()));
    }
    body.bad_words.push_back(text);
  }
}

void ReadStops(BodyReader& reader, const OpenAiLimits& limits, Request& request) {
  const Value* stop = reader.Find("stop");
  if (stop != nullptr) {
    if (stop->IsString()) {
      request.stops.push_back(stop->Text());
    } else if (!stop->IsList()) {
      return reader.Fail(
          "stop",
          fmt::format("must be a string or an array of strings, got {}", DescribeJson(*stop)),
          "invalid_type");
    } else {
      const auto& items = stop->AsSequence().items;
      if (items.size() > static_cast<size_t>(limits.max_stops)) {
        return reader.Fail("stop", fmt::format("may hold {} strings at most, got {}",
                                               limits.max_stops, items.size()));
      }
      for (const Value& item : items) {
        if (!item.IsString()) {
          return reader.Fail("stop", "must hold strings alone, got " + DescribeJson(item),
                             "invalid_type");
        }
        request.stops.push_back(item.Text());
      }
    }
    if (std::ranges::find(request.stops, "") != request.stops.end()) {
      return reader.Fail("stop", "must not hold an empty string");
    }
  }
  Assign(request.include_stop, reader.Bool("include_stop_str_in_output"));
  Assign(request.ignore_end_of_text, reader.Bool("ignore_eos"));
  request.show_control_tokens = !reader.Bool("skip_special_tokens").value_or(true);
  const auto* ids = reader.List("stop_token_ids");
  if (ids == nullptr) return;
  if (ids->size() > static_cast<size_t>(limits.max_stop_token_ids)) {
    return reader.Fail("stop_token_ids", fmt::format("may hold {} ids at most, got {}",
                                                     limits.max_stop_token_ids, ids->size()));
  }
  const auto fault = ReadTokenIds(*ids, limits.vocab_size, request.stop_token_ids);
  if (fault) reader.Fail("stop_token_ids", *fault);
}

void ReadLengths(BodyReader& reader, OpenAiRequest& body) {
  // With echo, no new token at all is an answer: the prompt's log-probabilities.
  const bool is_completion = body.endpoint == OpenAiEndpoint::kCompletions;
  const int lowest = is_completion && body.echo ? 0 : 1;
  const auto read = [&](std::string_view name) {
    const auto limit = reader.Int(name, lowest, INT64_MAX);
    if (limit) body.max_tokens = static_cast<int>(std::min(*limit, kMaxIntField));
  };
  read("max_tokens");
  // The newer name wins.
  read("max_completion_tokens");
  Assign(body.request.min_tokens, reader.Int("min_tokens", 0, kMaxIntField));
  if (body.max_tokens && body.request.min_tokens > *body.max_tokens) {
    reader.Fail("min_tokens", fmt::format("must be at most max_tokens, which is {}, got {}",
                                          *body.max_tokens, body.request.min_tokens));
  }
}

// As llama.cpp's server has it: a member with a dot in its name.
void ReadSpeculation(BodyReader& reader, Request& request) {
  const auto max_drafts = reader.Int("speculative.n_max", 0, kMaxIntField);
  if (max_drafts) request.max_drafts = static_cast<int>(*max_drafts);
}

void ReadChoices(BodyReader& reader, const OpenAiLimits& limits, Request& request) {
  Assign(request.num_choices, reader.Int("n", 1, limits.max_choices));
  const auto best_of = reader.Int("best_of", 1, kMaxIntField);
  if (best_of && *best_of != request.num_choices) {
    reader.Fail("best_of", fmt::format("must equal n, which is {}, got {}: choosing the best of "
                                       "more answers is not supported",
                                       request.num_choices, *best_of));
  }
  constexpr int kMaxBeams = kMaxLogProbs / 2;
  const bool uses_beams = reader.Bool("use_beam_search").value_or(false);
  const auto width = reader.Int("beam_width", 1, kMaxBeams);
  Assign(request.beams.length_penalty, reader.Number("length_penalty", -10, 10));
  Assign(request.beams.early_stopping, reader.Bool("early_stopping"));
  if (!uses_beams) return;
  if (!request.stops.empty()) {
    return reader.Fail("stop", "is not supported with beam search; stop_token_ids are",
                       "unsupported_parameter");
  }
  request.beams.width = static_cast<int>(width.value_or(request.num_choices));
  if (request.beams.width < request.num_choices || request.beams.width > kMaxBeams) {
    reader.Fail(width ? "beam_width" : "n",
                fmt::format("must be from {} to {} with beam search, got {}",
                            width ? request.num_choices : 1, kMaxBeams, request.beams.width));
  }
}

void ReadLogProbs(BodyReader& reader, OpenAiRequest& body) {
  std::optional<int>& logprobs = body.request.sampling.logprobs;
  if (body.endpoint == OpenAiEndpoint::kCompletions) {
    Assign(logprobs, reader.Int("logprobs", 0, kMaxLogProbs));
  } else {
    const bool wanted = reader.Bool("logprobs").value_or(false);
    const auto top = reader.Int("top_logprobs", 0, kMaxLogProbs);
    if (wanted) logprobs = static_cast<int>(top.value_or(0));
    if (!wanted && top.value_or(0) > 0) {
      reader.Fail("top_logprobs", "needs logprobs to be true");
    }
  }
  Assign(body.prompt_logprobs, reader.Int("prompt_logprobs", 0, kMaxLogProbs));
  body.request.prompt_logprobs = body.prompt_logprobs;
  if (body.endpoint == OpenAiEndpoint::kCompletions && body.echo && logprobs) {
    body.request.prompt_logprobs = std::max(*logprobs, body.prompt_logprobs.value_or(0));
  }
  Assign(body.return_token_ids, reader.Bool("return_token_ids"));
  Assign(body.tokens_as_token_ids, reader.Bool("return_tokens_as_token_ids"));
}

}  // namespace quire
