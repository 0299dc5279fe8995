// Aborts, timeouts, priorities, limits and errors: how requests come and go beside others.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "engine/requests_fixture.h"
#include "support/tiny_llama.h"

namespace quire {
namespace {

using testing::kRequestsModel;
using testing::RunOne;
using testing::RunTogether;

class RequestEndsTest : public testing::RequestsFixture {};

// --- Aborts ---

TEST_F(RequestEndsTest, AnAbortEndsARequestInAnyState) {
  // Steps before the abort: in the queue, amid the prompt, at its last token, decoding.
  for (const int steps : {0, 1, 3, 8, 9, 12, 40}) {
    for (const int num_choices : {1, 3}) {
      const auto engine = Tiny(/*num_blocks=*/10, /*chunk=*/8);
      Request request = Sampled(Ascending(60), 40);
      request.num_choices = num_choices;
      const RequestResult alone = RunOne(*Tiny(), request);
      std::vector<RequestResult> ends;
      const auto id = engine->Submit(
          request, {.on_finish = [&](RequestResult result) { ends.push_back(std::move(result)); }});
      Request neighbour = Sampled(Ascending(30, 5), 20);
      RequestResult neighbour_result;
      ASSERT_TRUE(engine
                      ->Submit(neighbour, {.on_finish =
                                               [&](RequestResult result) {
                                                 neighbour_result = std::move(result);
                                               }})
                      .ok());
      ASSERT_TRUE(id.ok());
      for (int i = 0; i < steps; ++i) engine->Step();
      engine->Abort(*id);
      ASSERT_EQ(ends.size(), 1u);
      engine->CheckInvariants();
      engine->Abort(*id);
      testing::RunChecked(*engine);
      engine->Abort(*id);
      ASSERT_EQ(ends.size(), 1u);
      for (size_t i = 0; i < ends[0].choices.size(); ++i) {
        const std::vector<int32_t>& tokens = ends[0].choices[i].tokens;
        EXPECT_EQ(ends[0].choices[i].finish_reason, FinishReason::kAborted);
        EXPECT_LT(tokens.size(), 40u);
        EXPECT_TRUE(
            std::ranges::equal(tokens, std::span(alone.choices[i].tokens).first(tokens.size())));
      }
      testing::ExpectSameChoices(neighbour_result, RunOne(*Tiny(), neighbour));
    }
  }
}

TEST_F(RequestEndsTest, AnAbortOfWhatIsPreemptedLeavesTheOther) {
  const auto engine = Tiny(/*num_blocks=*/8);
  std::vector<RequestId> ids;
  std::vector<RequestResult> results(2);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto id = engine->Submit(
        Sampled(Ascending(30, static_cast<int>(i)), 90),
        {.on_finish = [&results, i](RequestResult result) { results[i] = std::move(result); }});
    ASSERT_TRUE(id.ok());
    ids.push_back(*id);
  }
  while (engine->batch().counters().preemptions == 0) ASSERT_TRUE(engine->Step());
  engine->CheckInvariants();
  engine->Abort(ids[1]);
  engine->CheckInvariants();
  testing::RunChecked(*engine);
  EXPECT_EQ(results[1].choices.at(0).finish_reason, FinishReason::kAborted);
  testing::ExpectSameChoices(results[0], RunOne(*Tiny(), Sampled(Ascending(30, 0), 90)));
}

TEST_F(RequestEndsTest, AnUnknownRequestIsPassedOver) {
  const auto engine = Tiny();
  engine->Abort(0);
  engine->Abort(12345);
  EXPECT_FALSE(engine->Step());
}

// --- Hooks ---

TEST_F(RequestEndsTest, HooksMaySubmitAndAbort) {
  const auto engine = Tiny();
  const Request first = Sampled(Ascending(20), 10);
  const Request second = Sampled(Ascending(33, 3), 6, 2);
  const Request third = Sampled(Ascending(20), 30, 3);
  std::vector<RequestResult> results(4);
  const auto keep = [&results](size_t i) {
    return [&results, i](RequestResult result) { results[i] = std::move(result); };
  };
  RequestId third_id = 0;
  RequestId own_id = 0;
  int pieces = 0;
  const auto id = engine->Submit(third, {.on_finish = keep(2)});
  ASSERT_TRUE(id.ok());
  third_id = *id;
  ASSERT_TRUE(engine
                  ->Submit(first, {.on_piece =
                                       [&](const AnswerPiece&) {
                                         if (++pieces == 3) engine->Abort(third_id);
                                       },
                                   .on_finish =
                                       [&](RequestResult result) {
                                         results[0] = std::move(result);
                                         EXPECT_TRUE(
                                             engine->Submit(second, {.on_finish = keep(1)}).ok());
                                       }})
                  .ok());
  int own_pieces = 0;
  const auto own = engine->Submit(second, {.on_piece =
                                               [&](const AnswerPiece&) {
                                                 if (++own_pieces == 2) engine->Abort(own_id);
                                               },
                                           .on_finish = keep(3)});
  ASSERT_TRUE(own.ok());
  own_id = *own;
  testing::RunChecked(*engine);
  testing::ExpectSameChoices(results[0], RunOne(*Tiny(), first));
  const RequestResult alone = RunOne(*Tiny(), second);
  testing::ExpectSameChoices(results[1], alone);
  EXPECT_EQ(results[2].choices.at(0).finish_reason, FinishReason::kAborted);
  EXPECT_EQ(results[3].choices.at(0).finish_reason, FinishReason::kAborted);
  EXPECT_EQ(own_pieces, 2);
  EXPECT_EQ(
      results[3].choices[0].tokens,
      std::vector<int32_t>(alone.choices[0].tokens.begin(), alone.choices[0].tokens.begin() + 2));
}

TEST_F(RequestEndsTest, AnEngineMayGoWhileRequestsAreUnderWay) {
  const auto engine = Tiny();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine->Submit(Sampled(Ascending(20, i), 50)).ok());
    engine->Step();
  }
}

// --- Time, order, limits ---

TEST_F(RequestEndsTest, ATimeoutEndsARequestInTheQueueAndAmidItsAnswer) {
  const auto engine = Tiny(0, 512, /*max_sequences=*/1);
  Request slow = Sampled(Ascending(10), 100);
  slow.timeout_ms = 60;
  Request queued = Sampled(Ascending(20), 5);
  queued.timeout_ms = 1;
  Request patient = Sampled(Ascending(30), 5);
  std::vector<RequestResult> results(3);
  const auto keep = [&results](size_t i) {
    return [&results, i](RequestResult result) { results[i] = std::move(result); };
  };
  const auto sleep = [](const AnswerPiece&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  ASSERT_TRUE(engine->Submit(slow, {.on_piece = sleep, .on_finish = keep(0)}).ok());
  ASSERT_TRUE(engine->Submit(queued, {.on_finish = keep(1)}).ok());
  ASSERT_TRUE(engine->Submit(patient, {.on_finish = keep(2)}).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  testing::RunChecked(*engine);
  EXPECT_EQ(results[0].choices.at(0).finish_reason, FinishReason::kTimeout);
  EXPECT_LT(results[0].choices[0].tokens.size(), 100u);
  EXPECT_EQ(results[1].choices.at(0).finish_reason, FinishReason::kTimeout);
  EXPECT_TRUE(results[1].choices[0].tokens.empty());
  testing::ExpectSameChoices(results[2], RunOne(*Tiny(), patient));
}

TEST_F(RequestEndsTest, TheMoreUrgentEndsFirst) {
  const auto engine = Tiny(0, 512, /*max_sequences=*/1);
  std::vector<int> order;
  const std::vector<int> priorities{0, 1, -1, 0};
  std::vector<RequestResult> results(4);
  for (size_t i = 0; i < 4; ++i) {
    Request request = Sampled(Ascending(20, static_cast<int>(i)), 6, i);
    request.priority = priorities[i];
    ASSERT_TRUE(engine
                    ->Submit(request, {.on_finish =
                                           [&, i](RequestResult result) {
                                             order.push_back(static_cast<int>(i));
                                             results[i] = std::move(result);
                                           }})
                    .ok());
  }
  testing::RunChecked(*engine);
  EXPECT_EQ(order, (std::vector<int>{2, 0, 3, 1}));
}

TEST_F(RequestEndsTest, TheUrgentTakesThePlaceOfWhatRunsAndBothAreWhole) {
  const auto engine = Tiny(0, 512, /*max_sequences=*/1);
  std::vector<RequestResult> results(2);
  const Request usual = Sampled(Ascending(30), 20);
  Request urgent = Sampled(Ascending(40, 2), 10);
  urgent.priority = -1;
  ASSERT_TRUE(engine->Submit(usual, {.on_finish = [&](RequestResult r) { results[0] = r; }}).ok());
  for (int i = 0; i < 5; ++i) engine->Step();
  ASSERT_TRUE(engine
                  ->Submit(urgent, {.on_finish =
                                        [&](RequestResult r) {
                                          EXPECT_TRUE(results[0].choices.empty());
                                          results[1] = r;
                                        }})
                  .ok());
  testing::RunChecked(*engine);
  EXPECT_EQ(engine->batch().counters().preemptions, 1);
  testing::ExpectSameChoices(results[0], RunOne(*Tiny(), usual));
  testing::ExpectSameChoices(results[1], RunOne(*Tiny(), urgent));
}

TEST_F(RequestEndsTest, AFullQueueRefusesAndTakesAgainLater) {
  const auto engine = Tiny(0, 512, /*max_sequences=*/1, /*max_queue=*/2);
  const Request request = Sampled(Ascending(20), 3);
  ASSERT_TRUE(engine->Submit(request).ok());
  engine->Step();  // runs
  ASSERT_TRUE(engine->Submit(request).ok());
  ASSERT_TRUE(engine->Submit(request).ok());
  EXPECT_EQ(engine->num_running(), 1);
  EXPECT_EQ(engine->num_waiting(), 2);
  const auto refused = engine->Submit(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  testing::RunChecked(*engine);
  EXPECT_TRUE(engine->Submit(request).ok());
  testing::RunChecked(*engine);
}

TEST_F(RequestEndsTest, WhatCannotFitIsRefusedWithTheNumbers) {
  const auto engine = testing::MakeTestEngine(
      testing::TinyModel(kRequestsModel),
      {.runner = {.kv_bytes = testing::PoolBytes(testing::TinyModel(kRequestsModel), 6)}});
  EXPECT_EQ(engine->context_length(), 96);
  const auto refused = engine->Submit(Sampled(Ascending(96), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  const std::string bytes = std::to_string(6 * engine->cache().usage().block_bytes);
  for (const std::string& number : {std::string("96"), std::string("97"), bytes}) {
    EXPECT_NE(refused.error().message.find(number), std::string::npos)
        << number << ": " << refused.error().message;
  }
  EXPECT_EQ(RunOne(*engine, Sampled(Ascending(95), -1)).choices.at(0).tokens.size(), 1u);
}

TEST_F(RequestEndsTest, ParametersOutOfRangeAreRefusedByName) {
  const auto engine = Tiny();
  const auto refusal = [&](const std::function<void(Request&)>& change) {
    Request request = Sampled(Ascending(5), 4);
    change(request);
    const auto id = engine->Submit(request);
    if (id.ok()) return std::string("taken");
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
    return id.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refusal([](Request& r) { r.prompt.clear(); }), "prompt"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.prompt[2] = 300; }), "300"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.prompt[2] = -1; }), "-1"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.max_tokens = 0; }), "max_tokens"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.min_tokens = 5; }), "min_tokens"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.num_choices = 0; }), "n is 0"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.beams.width = -1; }), "beam_width"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.stop_token_ids = {1000000}; }), "1000000"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.prompt_logprobs = 21; }), "prompt_logprobs"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.timeout_ms = 0; }), "timeout_ms"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.timeout_ms = std::nan(""); }), "timeout_ms"));
  EXPECT_TRUE(has(refusal([](Request& r) { r.sampling.temperature = 3; }), "temperature"));
  EXPECT_FALSE(engine->Step());
  // And it serves on.
  EXPECT_EQ(RunOne(*engine, Sampled(Ascending(5), 4)).choices.at(0).tokens.size(), 4u);
}

// --- Numbers that are none ---

TEST_F(RequestEndsTest, ARequestThatCannotBeComputedLeavesTheOthersAlone) {
  testing::TinyLlama model({});
  // Token 9 makes the first norm overflow.
  testing::TinyTensor& embedding = model.tensor("token_embd.weight");
  for (size_t i = 0; i < 64; ++i) embedding.SetValue(9 * 64 + i, 3e38f);
  ASSERT_TRUE(model.Write(Path()));
  const auto make = [&] {
    return testing::MakeTestEngine(Path(), {.scheduler = {.max_batched_tokens = 40}});
  };
  const auto prompt = [](int32_t first) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 30; ++i) tokens.push_back((first + 3 * i) % 9);
    return tokens;
  };
  std::vector<Request> requests;
  for (int32_t i = 0; i < 5; ++i) {
    requests.push_back(Sampled(prompt(i), 12, static_cast<uint64_t>(i)));
    requests.back().sampling.logit_bias[9] = -100;
    requests.back().num_choices = 1 + i % 2;
  }
  requests[2].prompt[25] = 9;
  const auto engine = make();
  const std::vector<RequestResult> results = RunTogether(*engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i == 2) continue;
    EXPECT_TRUE(results[i].status.ok());
    testing::ExpectSameChoices(results[i], RunOne(*make(), requests[i]));
  }
  ASSERT_FALSE(results[2].status.ok());
  EXPECT_EQ(results[2].status.error().code, ErrorCode::kNumeric);
  EXPECT_EQ(results[2].choices.at(0).finish_reason, FinishReason::kError);
  // Nothing of it is found by who comes with the same beginning.
  Request after = requests[2];
  after.prompt[25] = 3;
  testing::ExpectSameChoices(RunOne(*engine, after), RunOne(*make(), after));
}

}  // namespace
}  // namespace quire
