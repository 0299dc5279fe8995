// An event of every kind, with every field set.
#pragma once

#include <vector>

#include "trace/events.h"

namespace quire::testing {

inline RunEvent SampleRun() {
  return {.unix_time = 1764486000.25,
          .quire = "0.1.0",
          .model = "Tiny \"quoted\" \\ model",
          .family = "llama",
          .num_layers = 2,
          .hidden_width = 64,
          .vocab_size = 296,
          .context_length = 128,
          .weight_bytes = uint64_t{1} << 40,
          .layers = {{.group = 1,
                      .window = 512,
                      .num_heads = 4,
                      .num_kv_heads = 2,
                      .key_dim = 16,
                      .value_dim = 32,
                      .kv_bytes_per_token = 128},
                     {}},
          .kv_type = "f16",
          .block_slots = 16,
          .num_groups = 2,
          .num_blocks = 4096,
          .block_bytes = 18'446'744'073'709'551'615u,
          .kernels = "avx2",
          .num_threads = 2,
          .bytes_per_second = 1.25e10,
          .int8_ops_per_second = 3.5e11,
          .f32_ops_per_second = 0.1};
}

inline std::vector<TraceEvent> SampleEvents() {
  StepEvent step{.ms = 12.345,
                 .step = 7,
                 .forward_ms = 1.5,
                 .total_ms = 2.001,
                 .num_tokens = 9,
                 .lines = {{.sequence = 3,
                            .request = 2,
                            .action = "prefill",
                            .reason = "token_budget",
                            .is_admission = true,
                            .cached_tokens = 16,
                            .first_position = 16,
                            .num_tokens = 8,
                            .num_drafts = 1,
                            .sequence_tokens = 40,
                            .blocks_needed = 2,
                            .blocks_available = 100,
                            .other = 1},
                           {.sequence = 4, .request = 5, .action = "wait", .reason = "no_slot"}},
                 .num_running = 1,
                 .num_waiting = 2,
                 .used_blocks = 3,
                 .cached_blocks = 4};
  for (int i = 0; i < kNumDecoderOperators; ++i) {
    step.operators.push_back({.operators = static_cast<DecoderOperator>(i),
                              .ms = 0.125 * i,
                              .ops = 1e9 * i,
                              .bytes = 1.5 * i});
  }
  std::vector<TraceEvent> events = {
      SampleRun(),
      RequestEvent{.ms = 0.001,
                   .request = 2,
                   .name = "cmpl-\xC3\xA4\n\x01",
                   .is_pin = true,
                   .prompt_tokens = 40,
                   .max_tokens = 16,
                   .num_choices = 2},
      step,
      TokenEvent{.ms = 13,
                 .request = 2,
                 .choice = 1,
                 .position = 40,
                 .token = 151'000,
                 .text = "caf\xC3\xA9",
                 .was_drafted = true,
                 .candidates = {{.token = 151'000, .log_prob = -0.1f},
                                {.token = 0, .log_prob = -1.1754944e-38f}}},
      EndEvent{.ms = 14.5,
               .request = 2,
               .is_pin = true,
               .reason = "error",
               .error = "a value is NaN",
               .prompt_computed = true,
               .prompt_tokens = 40,
               .completion_tokens = 2,
               .cached_memory = 16,
               .cached_disk = 8,
               .cached_remote = 4,
               .miss = "differs",
               .miss_position = 28,
               .miss_text = "goes on otherwise",
               .num_preemptions = 1,
               .draft_tokens = 5,
               .accepted_draft_tokens = 3,
               .queue_ms = 1.001,
               .tier_wait_ms = 2.002,
               .first_token_ms = 3.003,
               .decode_ms = 4.004,
               .total_ms = 14.499},
      DroppedEvent{.ms = 15, .count = 12}};
  for (int i = 0; i < kNumBlockChanges; ++i) {
    events.push_back(BlockEvent{.ms = 16.5,
                                .change = static_cast<BlockChange>(i),
                                .block = i,
                                .other = i - 1,
                                .group = i - 1,
                                .references = i,
                                .findable = i % 2 == 1,
                                .sequence = 3,
                                .reason = "growth"});
  }
  return events;
}

}  // namespace quire::testing
