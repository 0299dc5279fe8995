// Drafts through the engine (docs/speculation.md): whatever is drafted, an answer is bit for bit
// what it is without, and ends where it ends without.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "engine/requests_fixture.h"
#include "formats/gguf.h"

namespace quire {
namespace {

using testing::RunOne;
using testing::RunTogether;

SpeculationOptions Always(int max_drafts, SpeculationType type = SpeculationType::kNgram) {
  return {.type = type, .max_drafts = max_drafts, .drafts_always = true};
}

class SpeculationTest : public testing::RequestsFixture {
 protected:
  // Says a, b, c, d, a, b, ...
  std::unique_ptr<Engine> Round(const SpeculationOptions& speculation) {
    return Alphabet({0, 2, 3, 4, 1, 0}, {.speculation = speculation});
  }
  static std::unique_ptr<Engine> Model(const std::string& name,
                                       const SpeculationOptions& speculation) {
    return testing::MakeTestEngine(
        testing::TinyModel(name),
        {.runner = {.context_length = 256, .num_sequences = 8}, .speculation = speculation});
  }
  static Request Greedy(std::vector<int32_t> prompt, int max_tokens) {
    Request request = Sampled(std::move(prompt), max_tokens);
    request.sampling.temperature = 0;
    return request;
  }
};

TEST_F(SpeculationTest, DrawsManyTokensInAStepOfATextThatRepeats) {
  const Request request = Greedy({1, 2, 3, 4, 1, 2, 3}, 41);
  const auto plain = Round({});
  const RequestResult expected = RunOne(*plain, request);
  const auto engine = Round(Always(7));
  const RequestResult result = RunOne(*engine, request);
  testing::ExpectSameChoices(result, expected);
  EXPECT_EQ(plain->counters().steps, 41);
  EXPECT_EQ(engine->counters().steps, 1 + 5);  // the prompt's token, then 8 a step
  const DraftCounters& drafts = engine->counters().drafts;
  EXPECT_EQ(drafts.drafts, 5);
  EXPECT_EQ(drafts.draft_tokens, 35);
  EXPECT_EQ(drafts.accepted, 35);
  EXPECT_EQ(drafts.accepted_at[0], 5);
  EXPECT_EQ(drafts.accepted_at[6], 5);
  EXPECT_EQ(drafts.accepted_at[7], 0);
  EXPECT_EQ(result.draft_tokens, 35);
  EXPECT_EQ(result.accepted_draft_tokens, 35);
  EXPECT_EQ(plain->counters().drafts.draft_tokens, 0);
  EXPECT_EQ(plain->counters().computed_tokens, 7 + 40);
  EXPECT_EQ(engine->counters().computed_tokens, 7 + 40);  // each draft is a token's row
}

TEST_F(SpeculationTest, GivesTheSameAnswersOnEveryModel) {
  DraftCounters sum;
  for (const std::string& name : testing::TinyModels()) {
    SCOPED_TRACE(name);
    std::vector<Request> requests;
    for (int i = 0; i < 6; ++i) {
      // A text that repeats, so that there is something to draft.
      std::vector<int32_t> prompt = Ascending(5 + 3 * i, i);
      const std::vector<int32_t> once = prompt;
      for (int copy = 0; copy < 3; ++copy) prompt.insert(prompt.end(), once.begin(), once.end());
      Request request = i % 2 == 0 ? Greedy(prompt, 40) : Sampled(prompt, 40, 7 + i);
      if (i == 1) request.num_choices = 3;
      if (i == 2) request.sampling.repetition_penalty = 1.3f;
      if (i == 3) request.sampling.top_p = .5f;
      if (i == 4) request.sampling.bad_words = {{once[0], once[1]}};
      if (i == 5) request.sampling.temperature = .2f;
      requests.push_back(request);
    }
    const std::vector<RequestResult> expected = RunTogether(*Model(name, {}), requests);
    for (const int max_drafts : {1, 6, kMostDrafts}) {
      const auto engine = Model(name, Always(max_drafts));
      const std::vector<RequestResult> results = RunTogether(*engine, requests);
      for (size_t i = 0; i < results.size(); ++i) {
        testing::ExpectSameChoices(results[i], expected[i]);
      }
      sum.accepted += engine->counters().drafts.accepted;
      sum.draft_tokens += engine->counters().drafts.draft_tokens;
    }
  }
  EXPECT_GT(sum.accepted, 50);
  EXPECT_GT(sum.draft_tokens - sum.accepted, 1000);
}

TEST_F(SpeculationTest, EndsWithinADraftWhereItEndsWithout) {
  struct Case {
    const char* what;
    void (*change)(Request&);
  };
  const Case cases[] = {
      {"a stop token", [](Request& r) { r.stop_token_ids = {3}; }},
      {"a stop string", [](Request& r) { r.stops = {"cd"}; }},
      {"a stop string that is kept", [](Request& r) { r.stops = {"bcd"}, r.include_stop = true; }},
      {"a stop token that comes too early at first",
       [](Request& r) { r.stop_token_ids = {3}, r.min_tokens = 9; }},
      {"a stop string that comes too early at first",
       [](Request& r) { r.stops = {"da"}, r.min_tokens = 10; }},
      {"max_tokens", [](Request& r) { r.max_tokens = 12; }},
      {"one token", [](Request& r) { r.max_tokens = 1; }},
      {"two tokens", [](Request& r) { r.max_tokens = 2; }}};
  for (const Case& end : cases) {
    SCOPED_TRACE(end.what);
    Request request = Greedy({1, 2, 3, 4, 1, 2, 3}, 60);
    end.change(request);
    const RequestResult expected = RunOne(*Round({}), request);
    for (const int max_drafts : {1, 3, 15}) {
      const auto engine = Round(Always(max_drafts));
      const RequestResult result = RunOne(*engine, request);
      testing::ExpectSameChoices(result, expected);
      EXPECT_EQ(result.choices[0].matched_stop, expected.choices[0].matched_stop);
      EXPECT_EQ(result.choices[0].matched_stop_token, expected.choices[0].matched_stop_token);
      EXPECT_EQ(engine->cache().usage().used_blocks, 0);
    }
  }
}

TEST_F(SpeculationTest, FillsTheContextAsWithout) {
  Request request = Greedy(Ascending(20), -1);
  const RequestResult expected = RunOne(*Model("tiny-llama", {}), request);
  ASSERT_EQ(expected.choices[0].tokens.size(), 256u - 20);
  const auto engine = Model("tiny-llama", Always(15));
  testing::ExpectSameChoices(RunOne(*engine, request), expected);
  EXPECT_GT(engine->counters().drafts.accepted, 0);
}

TEST_F(SpeculationTest, LeavesTheSamePrefixBehind) {
  std::vector<int> cached;
  for (const SpeculationOptions& speculation : {SpeculationOptions{}, Always(15)}) {
    const auto engine = Model("tiny-gemma3", speculation);
    const RequestResult first = RunOne(*engine, Greedy(Ascending(40), 50));
    std::vector<int32_t> next = Ascending(40);
    next.insert(next.end(), first.choices[0].tokens.begin(), first.choices[0].tokens.end());
    next.push_back(1);
    const RequestResult second = RunOne(*engine, Greedy(next, 20));
    cached.push_back(second.cached_tokens);
    testing::ExpectSameChoices(second, RunOne(*Model("tiny-gemma3", {}), Greedy(next, 20)));
  }
  EXPECT_EQ(cached[0], 89);  // prompt and answer, but for the last token: it was not fed
  EXPECT_EQ(cached[1], 89);
}

TEST_F(SpeculationTest, IsOffForWhatCannotUseIt) {
  const auto drafts_of = [](Request request) {
    const auto engine = Model("tiny-llama", Always(7));
    RunOne(*engine, std::move(request));
    return engine->counters().drafts.draft_tokens;
  };
  EXPECT_GT(drafts_of(Greedy(Ascending(20), 10)), 0);
  Request beams{.prompt = Ascending(20), .max_tokens = 10};
  beams.beams.width = 2;
  EXPECT_EQ(drafts_of(beams), 0);
  Request embedding{.prompt = Ascending(20)};
  embedding.embedding = Pooling::kMean;
  EXPECT_EQ(drafts_of(embedding), 0);
  Request without_cache = Greedy(Ascending(20), 5);
  without_cache.use_kv_cache = false;
  EXPECT_EQ(drafts_of(without_cache), 0);
  Request unwanted = Greedy(Ascending(20), 10);
  unwanted.max_drafts = 0;
  EXPECT_EQ(drafts_of(unwanted), 0);
}

TEST_F(SpeculationTest, DraftsNoMoreThanTheRequestAllows) {
  const auto engine = Round(Always(15));
  Request request = Greedy({1, 2, 3, 4, 1, 2, 3}, 41);
  request.max_drafts = 3;
  const RequestResult result = RunOne(*engine, request);
  EXPECT_EQ(engine->counters().steps, 1 + 10);  // 4 a step
  EXPECT_EQ(result.accepted_draft_tokens, 30);
  request.max_drafts = -1;
  EXPECT_FALSE(engine->Submit(request).ok());
}

TEST_F(SpeculationTest, LeavesStepsWithPrefillAlone) {
  const auto engine = Model("tiny-llama", Always(15));
  int mixed = 0;
  engine->SetStepObserver([&](const StepReport& report) {
    const bool has_prefill = std::ranges::any_of(report.plan->lines, [](const PlanLine& line) {
      return line.action == PlanAction::kPrefill;
    });
    const bool decodes = std::ranges::any_of(report.plan->lines, [](const PlanLine& line) {
      return line.action == PlanAction::kDecode;
    });
    mixed += has_prefill && decodes;
    EXPECT_TRUE(!has_prefill || report.plan->num_drafts == 0);
    // Rows behind drafts are nobody's yet.
    EXPECT_LE(report.logits.size(), report.items.size());
  });
  const auto submit = [&](Request request) { ASSERT_TRUE(engine->Submit(request).ok()); };
  submit(Greedy(Ascending(20), 40));
  for (int i = 0; i < 4; ++i) engine->Step();
  submit(Greedy(Ascending(200, 3), 4));
  testing::RunChecked(*engine);
  EXPECT_GT(mixed, 0);
}

TEST_F(SpeculationTest, DraftsWhatACachedAnswerToTheSamePromptSaid) {
  Request request = Sampled(Ascending(40), 60);
  request.sampling.temperature = 1;
  for (const SpeculationType type : {SpeculationType::kNgram, SpeculationType::kNgramCache}) {
    const auto engine = Model("tiny-qwen2", Always(15, type));
    const RequestResult first = RunOne(*engine, request);
    const int64_t before = engine->counters().drafts.accepted;
    const RequestResult second = RunOne(*engine, request);
    testing::ExpectSameChoices(second, first);
    const int64_t accepted = engine->counters().drafts.accepted - before;
    if (type == SpeculationType::kNgramCache) {
      EXPECT_GT(accepted, 40);
    } else {
      EXPECT_LT(accepted, 30);
    }
    // Another tenant's answer is nobody's business.
    Request foreign = request;
    foreign.cache_salt = "another";
    const int64_t before_foreign = engine->counters().drafts.accepted;
    testing::ExpectSameChoices(RunOne(*engine, foreign), first);
    EXPECT_LT(engine->counters().drafts.accepted - before_foreign, 30);
  }
}

// A model whose position embeddings cannot be computed with from a position on.
std::filesystem::path ModelThatEndsAt(int position, const std::filesystem::path& path) {
  const std::filesystem::path original = testing::TinyModel("tiny-classic");
  std::ifstream in(original, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto file = GgufFile::Open(original);
  const GgufTensor* embedding = file->FindTensor("position_embd.weight");
  const auto width = static_cast<size_t>(embedding->dimensions[0]);
  const size_t offset = bytes.find(std::string_view(
      reinterpret_cast<const char*>(embedding->data.data()), embedding->data.size()));
  EXPECT_EQ(embedding->data.size(), width * embedding->dimensions[1] * sizeof(float));
  for (size_t i = position * width; i < embedding->data.size() / sizeof(float); ++i) {
    const float huge = 3e38f;
    std::memcpy(&bytes[offset + i * sizeof(float)], &huge, sizeof(huge));
  }
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST_F(SpeculationTest, ADraftThatCannotBeComputedEndsNoRequest) {
  constexpr int kPrompt = 20;
  Request request = Greedy(Ascending(kPrompt), 40);
  const RequestResult whole = RunOne(*Model("tiny-classic", {}), request);
  // It stops before the position that cannot be computed; its drafts reach there.
  constexpr size_t kTokens = 6;
  const std::vector<int32_t>& said = whole.choices[0].tokens;
  request.stop_token_ids = {said[kTokens - 1]};
  const auto stop = std::ranges::find(said, said[kTokens - 1]) - said.begin() + 1;
  const auto path = ModelThatEndsAt(kPrompt + static_cast<int>(stop), Path());
  const RequestResult expected = RunOne(*testing::MakeTestEngine(path), request);
  ASSERT_TRUE(expected.status.ok()) << expected.status.error().message;
  ASSERT_EQ(std::ssize(expected.choices[0].tokens), stop);
  const auto engine = testing::MakeTestEngine(path, {.speculation = Always(15)});
  int64_t num_rows = 0;
  int64_t num_planned = 0;
  engine->SetStepObserver([&](const StepReport& report) {
    for (const StepItem& item : report.items) num_rows += item.num_tokens;
    num_planned += report.plan->num_tokens + report.plan->num_drafts;
  });
  const RequestResult result = RunOne(*engine, request);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message;
  EXPECT_EQ(engine->counters().computed_tokens, num_rows);
  EXPECT_LT(num_rows, num_planned);
  testing::ExpectSameChoices(result, expected);
  EXPECT_GT(engine->counters().drafts.stripped_steps, 0);
  // What cannot be computed in any case still says so.
  request.stop_token_ids.clear();
  EXPECT_FALSE(RunOne(*engine, request).status.ok());
}

TEST_F(SpeculationTest, RefusesNumbersOfDraftsThatAreOutOfRange) {
  for (const int max_drafts : {-1, 0, kMostDrafts + 1}) {
    EngineOptions options{.speculation = {.max_drafts = max_drafts}};
    EXPECT_FALSE(Engine::Create(testing::TinyModel("tiny-llama"), options).ok()) << max_drafts;
  }
}

TEST_F(SpeculationTest, RefusesMoreSequencesThanThereIsMemoryFor) {
  const EngineOptions options{.runner = {.num_sequences = std::numeric_limits<int>::max()},
                              .speculation = Always(kMostDrafts)};
  EXPECT_FALSE(Engine::Create(testing::TinyModel("tiny-llama"), options).ok());
}

TEST_F(SpeculationTest, AHookMayAbortWithinADraft) {
  for (const int after : {1, 2, 5, 9}) {
    const auto engine = Round(Always(15));
    int pieces = 0;
    RequestId id = 0;
    RequestResult result;
    const auto submitted =
        engine->Submit(Greedy({1, 2, 3, 4, 1, 2, 3}, 60),
                       {.on_piece =
                            [&](const AnswerPiece& piece) {
                              if (piece.token >= 0 && ++pieces == after) engine->Abort(id);
                            },
                        .on_finish = [&](RequestResult ended) { result = std::move(ended); }});
    ASSERT_TRUE(submitted.ok());
    id = *submitted;
    testing::RunChecked(*engine);
    EXPECT_EQ(pieces, after);
    EXPECT_EQ(std::ssize(result.choices[0].tokens), after);
    EXPECT_EQ(result.choices[0].finish_reason, FinishReason::kAborted);
  }
}

}  // namespace
}  // namespace quire
