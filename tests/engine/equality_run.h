// Random loads through an engine, and their answers against those that each request gets alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/equality_load.h"

namespace quire::testing {

// What came of a request.
struct LoadAnswer {
  Request request{};  // with its whole prompt
  int num_ends = 0;   // calls of on_finish
  bool was_refused = false;
  RequestResult result{};
  std::vector<std::vector<int32_t>> told{};  // [choices] tokens that came through on_piece
};

// What must have happened for equal answers to mean anything; summed over loads.
struct LoadEvents {
  int64_t requests = 0;
  int64_t prefix_hits = 0;
  int64_t partial_hits = 0;
  int64_t evictions = 0;
  int64_t preemptions = 0;
  int64_t forks = 0;
  int64_t copies_on_write = 0;  // at least so many
  int64_t window_releases = 0;
  int64_t shared_waits = 0;
  int64_t aborts = 0;  // that cut an answer short
  int64_t drafts_accepted = 0;
  int64_t drafts_refused = 0;
  // With tiers.
  int64_t disk_tokens = 0;  // that came from such a tier
  int64_t remote_tokens = 0;
  int64_t takeovers = 0;        // of blocks that came while their sequence ran
  int64_t spilled_blocks = 0;   // of preempted sequences
  int64_t restored_tokens = 0;  // of preempted sequences, from tiers
  int64_t faults = 0;           // of loads

  void Add(const LoadEvents& other);
};
std::string ToString(const LoadEvents& events);

// Runs a load to its end. Adds a test failure where it does not end, blocks stay in use or a
// request ends otherwise than once; ends the process when an invariant breaks.
// QUIRE_EQUALITY_PLANS in the environment prints the plan of every step.
std::vector<LoadAnswer> RunLoad(const Load& load, LoadEvents* events);

// Every answer against the same request alone, and its log-probabilities against the logits of its
// ids computed in one go. Bit for bit; adds test failures.
void ExpectAnswersAsAlone(const Load& load, const std::vector<LoadAnswer>& answers);

// Two runs of the same load, maybe with other options.
void ExpectSameAnswers(const std::vector<LoadAnswer>& ones, const std::vector<LoadAnswer>& others);

}  // namespace quire::testing
