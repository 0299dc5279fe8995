// Requests through an engine, and what comes of them.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_fixture.h"

namespace quire::testing {

// Until nothing is left to do, the invariants checked around every step.
inline void RunChecked(Engine& engine) {
  engine.CheckInvariants();
  while (engine.Step()) engine.CheckInvariants();
  engine.CheckInvariants();
  EXPECT_EQ(engine.cache().usage().used_blocks, 0);
}

// All sent at once; their results in order. A refused one is a failure and has no choices.
inline std::vector<RequestResult> RunTogether(Engine& engine, std::vector<Request> requests) {
  std::vector<RequestResult> results(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto id = engine.Submit(
        std::move(requests[i]),
        {.on_finish = [&results, i](RequestResult result) { results[i] = std::move(result); }});
    if (!id.ok()) ADD_FAILURE() << id.error().message;
  }
  RunChecked(engine);
  return results;
}

inline RequestResult RunOne(Engine& engine, Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return std::move(RunTogether(engine, std::move(requests))[0]);
}

// The same tokens `count` times.
inline std::vector<int32_t> Repeated(int32_t token, int count) {
  return std::vector<int32_t>(static_cast<size_t>(count), token);
}

// Bytes of a pool of so many blocks.
inline uint64_t PoolBytes(const std::filesystem::path& path, int num_blocks,
                          KvType type = KvType::kF16) {
  const auto runner = MakeTestRunner(path, {.context_length = 16, .kv_type = type});
  return runner == nullptr
             ? 0
             : runner->cache().layout().block_bytes * static_cast<uint64_t>(num_blocks);
}

inline void ExpectSameLogProbs(const std::vector<LogProbs>& ones,
                               const std::vector<LogProbs>& others) {
  ASSERT_EQ(ones.size(), others.size());
  for (size_t i = 0; i < ones.size(); ++i) {
    EXPECT_EQ(ones[i].chosen.token, others[i].chosen.token) << i;
    EXPECT_EQ(ones[i].chosen.log_prob, others[i].chosen.log_prob) << i;
    ASSERT_EQ(ones[i].top.size(), others[i].top.size());
    for (size_t j = 0; j < ones[i].top.size(); ++j) {
      EXPECT_EQ(ones[i].top[j].token, others[i].top[j].token) << i;
      EXPECT_EQ(ones[i].top[j].log_prob, others[i].top[j].log_prob) << i;
    }
  }
}

// Tokens and log-probabilities of all choices, bit for bit.
inline void ExpectSameChoices(const RequestResult& one, const RequestResult& other) {
  ASSERT_EQ(one.choices.size(), other.choices.size());
  for (size_t i = 0; i < one.choices.size(); ++i) {
    EXPECT_EQ(one.choices[i].tokens, other.choices[i].tokens);
    EXPECT_EQ(one.choices[i].text, other.choices[i].text);
    EXPECT_EQ(one.choices[i].finish_reason, other.choices[i].finish_reason);
    ExpectSameLogProbs(one.choices[i].log_probs, other.choices[i].log_probs);
  }
}

}  // namespace quire::testing
