// What happened in a run of the engine, event by event: plain data.
//
// The engine tells a sink (trace/trace_sink.h) as it goes; a file, a live page and `quire explain`
// are fed by the same events. Their form as JSON is docs/trace-format.md. Times are milliseconds
// since the run began, durations milliseconds, positions count a sequence's tokens from 0.
//
// In a trace, in this order: one RunEvent; of each request a RequestEvent, its part in StepEvents,
// TokenEvents, and one EndEvent. Block events of a step come before its StepEvent, the tokens that
// were drawn in it and the requests that ended in it behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/decoder_operator.h"

namespace quire {

inline constexpr int kTraceVersion = 1;

struct TraceLayer {
  int group = 0;   // of the KV cache
  int window = 0;  // 0 = all positions
  int num_heads = 0;
  int num_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  uint64_t kv_bytes_per_token = 0;
};

// The first event of a run.
struct RunEvent {
  double unix_time = 0;  // seconds, when ms was 0
  std::string quire{};   // version of the program
  // The model.
  std::string model{};
  std::string family{};
  int num_layers = 0;
  int hidden_width = 0;
  int vocab_size = 0;
  int context_length = 0;
  uint64_t weight_bytes = 0;
  std::vector<TraceLayer> layers{};
  // The KV cache.
  std::string kv_type{};
  int block_slots = 0;
  int num_groups = 0;
  int64_t num_blocks = 0;
  uint64_t block_bytes = 0;
  // The machine; what was not measured is 0.
  std::string kernels{};
  int num_threads = 0;
  double bytes_per_second = 0;
  double int8_ops_per_second = 0;
  double f32_ops_per_second = 0;
};

// A request has come.
struct RequestEvent {
  double ms = 0;
  int64_t request = 0;
  std::string name{};   // the server's id of it (Request::name); empty elsewhere
  bool is_pin = false;  // a prefix is to be kept: nobody asks for an answer
  int prompt_tokens = 0;
  int max_tokens = 0;  // of each answer
  int num_choices = 0;
};

// A line of the step's plan (engine/step_plan.h): names instead of enums.
struct StepLine {
  int64_t sequence = 0;
  int64_t request = 0;
  std::string action{};  // "decode", "prefill", "preempt", "wait", "expire"
  std::string reason{};  // "none", "whole_gap", "token_budget", ...
  bool is_admission = false;
  int cached_tokens = 0;  // of an admission
  int first_position = 0;
  int num_tokens = 0;
  int num_drafts = 0;
  int sequence_tokens = 0;
  int64_t blocks_needed = 0;
  int64_t blocks_available = 0;
  int64_t other = 0;  // the sequence that it waits for or yields to
};

struct OperatorTime {
  DecoderOperator operators = DecoderOperator::kEmbed;
  double ms = 0;     // of the step's wall time
  double ops = 0;    // int8 and f32 operations
  double bytes = 0;  // of weights, keys and values
};

struct StepEvent {
  double ms = 0;     // when it was planned
  int64_t step = 0;  // counts those that compute, from 1; 0 = it computed nothing
  double forward_ms = 0;
  double total_ms = 0;  // with planning, sampling and telling
  int num_tokens = 0;   // with drafts
  std::vector<StepLine> lines{};
  std::vector<OperatorTime> operators{};  // empty where they are not asked for
  // After the step.
  int num_running = 0;
  int num_waiting = 0;
  int64_t used_blocks = 0;
  int64_t cached_blocks = 0;
};

enum class BlockChange : uint8_t {
  kAllocate,     // taken for a sequence
  kShare,        // one more holder of a block that was found
  kCopyOnWrite,  // `other` is the block copied from
  kFill,         // filled, and findable from here on
  kRelease,      // a holder less; cached or free where it was the last
  kEvict,        // its content is lost: another needed the block
  kOffload,      // given to the tiers
  kRestore,      // came from a tier
};
inline constexpr int kNumBlockChanges = 8;
// "allocate", "share", "copy_on_write", "fill", "release", "evict", "offload", "restore"
std::string_view NameOf(BlockChange change);

struct BlockEvent {
  double ms = 0;
  BlockChange change = BlockChange::kAllocate;
  int32_t block = 0;
  int32_t other = -1;     // block; -1 = none
  int group = 0;          // -1 = not known
  int references = 0;     // after it
  bool findable = false;  // after it: held by none it is cached, else free
  int64_t sequence = 0;   // that it was done for, where that is known
  std::string reason{};   // "admission", "growth", "preempt", "end", "window", ...
};

struct TraceCandidate {
  int32_t token = 0;
  float log_prob = 0;
};

// A token was drawn.
struct TokenEvent {
  double ms = 0;
  int64_t request = 0;
  int choice = 0;
  int position = 0;  // of the token in its sequence
  int32_t token = 0;
  std::string text{};                        // its bytes, made printable
  bool was_drafted = false;                  // a draft had said so, which saved it a step
  std::vector<TraceCandidate> candidates{};  // best first; empty where they are not asked for
};

// A request has ended.
struct EndEvent {
  double ms = 0;
  int64_t request = 0;
  bool is_pin = false;
  std::string reason{};          // FinishReason of the request as a whole
  std::string error{};           // of reason "error"
  bool prompt_computed = false;  // else it ended before, and counts for no statistics of prompts
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_memory = 0;  // prompt tokens found, by where
  int cached_disk = 0;
  int cached_remote = 0;
  std::string miss{};  // why not more: MissReason
  int miss_position = 0;
  std::string miss_text{};  // one sentence for people
  int num_preemptions = 0;
  int draft_tokens = 0;
  int accepted_draft_tokens = 0;
  double queue_ms = 0;  // parts of total_ms as RequestResult has them
  double tier_wait_ms = 0;
  double first_token_ms = 0;
  double decode_ms = 0;
  double total_ms = 0;
};

// Events are lacking here: whoever keeps them could not follow.
struct DroppedEvent {
  double ms = 0;
  int64_t count = 0;
};

using TraceEvent =
    std::variant<RunEvent, RequestEvent, StepEvent, BlockEvent, TokenEvent, EndEvent, DroppedEvent>;

}  // namespace quire
