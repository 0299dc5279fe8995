// The engine: requests in, answers out, one step at a time.
//
// Owns the model and its KV cache, the batch of sequences under way, and the requests they belong
// to. A step plans (engine/scheduler.h), computes (engine/model_runner.h), samples every row that
// asks for it, and tells the requests. An answer is bit for bit what its request would have got
// alone on a cold engine (docs/numerics.md).
// Used by one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/answer_index.h"
#include "engine/batch.h"
#include "engine/memory_held.h"
#include "engine/model_runner.h"
#include "engine/pins.h"
#include "engine/request.h"
#include "kv/tiers/tier_set.h"
#include "sampling/sampler.h"
#include "speculation/draft_policy.h"

namespace quire {

class Drafter;
class EngineTrace;
class PinSet;
class RequestState;
class TraceSink;

// Makes a tier once the model is known.
using TierFactory =
    std::function<Result<std::unique_ptr<Tier>>(std::shared_ptr<const RecordCodec> codec)>;

struct TierOptions {
  std::vector<TierFactory> factories{};  // nearest first; none = keys and values stay in memory
  std::shared_ptr<const KeyRing> keys{};
  bool encrypts = false;  // needs keys
  TierSetOptions set{};
  // Told what computing costs, at the start and as it is learned: what stored blocks are worth.
  std::function<void(const PrefillCost&)> on_prefill_cost{};
  double max_wait_ms = 250;  // that a request waits for tiers, in all
  double idle_ms = 1000;     // without a step, before what only memory holds is written
  double flush_ms = 10'000;  // that the last writes may take at the end
};

struct EngineOptions {
  RunnerOptions runner{};
  TierOptions tiers{};
  SchedulerOptions scheduler{};
  // Of the KV cache, that pins may hold together; at most what one whole context leaves.
  double max_pinned_fraction = .5;
  int max_queue = 0;              // requests that may wait; 0 = no limit
  bool reuse_sampled_ids = true;  // engine/answer_index.h
  SpeculationOptions speculation{};
  TraceSink* trace = nullptr;  // told what happens; outlives the engine; null = nobody
};

// A row of logits of the step that has just been computed. Those behind drafts are left out:
// whether they are anybody's is not settled yet.
struct LogitsRow {
  SequenceId sequence = 0;
  int position = 0;  // of the token it follows
  std::span<const float> logits{};
};

// What one step did; valid inside the observer.
struct StepReport {
  const StepPlan* plan = nullptr;
  std::span<const StepItem> items{};
  std::span<const LogitsRow> logits{};
  double duration_ms = 0;  // of the forward pass
};

struct EngineCounters {
  int64_t steps = 0;
  int64_t prompt_tokens = 0;     // of requests whose prompt has been computed
  int64_t cached_tokens = 0;     // of those: found in the cache
  int64_t computed_tokens = 0;   // rows of forward passes that could be computed, with drafts
  int64_t generated_tokens = 0;  // sampled
  DraftCounters drafts{};
  int64_t requests_finished = 0;
  // Of the requests whose prompt has been computed: those that read the cache (prompt tokens looked
  // up, and found), and all of them by why no more was found (MissReason).
  int64_t prefix_cache_queries = 0;
  int64_t prefix_cache_hits = 0;
  std::array<int64_t, kNumMissReasons> misses{};
  // Prompt tokens that memory did not have and the tiers were asked for, and those that came from
  // each kind of tier.
  int64_t tier_queries = 0;
  std::array<int64_t, kNumTierKinds> tier_hits{};
  // By LoadChoice: what was done about prefixes that a tier had.
  std::array<int64_t, 3> load_choices{};
  double tier_wait_ms = 0;      // of all requests
  double max_tier_wait_ms = 0;  // of one
  int64_t preempted_blocks_spilled = 0;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Create(const std::filesystem::path& path,
                                                const EngineOptions& options);
  ~Engine();

  // Queues a request. Fails at once, saying what is needed, available and allowed, for parameters
  // out of range, a prompt that the context, the KV cache or the tenant's quota can never hold
  // (kContextLength), and a full queue (kResourceExhausted). Hooks are not called then. An answer
  // ends (kLength) where the context or the quota is full.
  Result<RequestId> Submit(Request request, RequestHooks hooks = {});
  // Ends a request in any state; what it has comes through on_finish. Unknown ids are passed over.
  void Abort(RequestId id);
  void AbortAll();

  // Computes a prefix where it is not cached, and keeps it. `done` is called by the thread that
  // steps the engine, at once for what is refused: kResourceExhausted beyond a quota, with the
  // numbers.
  void Pin(PinSpec spec, std::function<void(Result<PinInfo>)> done);
  // The tenant's, oldest first.
  std::vector<PinInfo> Pins(std::string_view tenant) const;
  // False where the tenant has no such pin.
  bool DropPin(std::string_view tenant, PinId id);
  // That all pins hold; those that have ended give theirs back by the next step or verb.
  int64_t num_pinned_blocks() const;

  // Runs one step. False when there is nothing left to do; the memory of free blocks has then gone
  // back to the system. Where everybody waits for a tier, it waits a millisecond at most.
  bool Step();
  // What there is to do for tiers while there are no requests: takes in what loads still bring, and
  // writes what only memory holds, a little at a time. When it wants to be called again, in ms;
  // nothing: not before the next request.
  std::optional<double> RunIdle();
  // Writes what only memory holds, for tiers.flush_ms at most. How many blocks are left unwritten.
  int64_t FlushTiers();
  // Their states and counts; empty without tiers.
  std::vector<TierStatus> TierStatuses() const;
  // Null without tiers.
  const TierSet* tiers() const { return tiers_.get(); }
  // How long a prefix of `tokens` memory and tiers have together, in whole blocks, as far as the
  // tiers know without being asked. Extends the chain.
  int StoredTokens(IdentityChain& chain, std::span<const int32_t> tokens) const;
  PrefillCost prefill_cost() const { return batch_->prefill_cost(); }
  void RunUntilIdle() {
    while (Step()) {
    }
  }

  // Sees every step between the forward pass and sampling; may be empty.
  void SetStepObserver(std::function<void(const StepReport&)> observer);

  // Token ids of a prompt's text: those sampled where an earlier answer comes back within one salt,
  // the tokenizer's otherwise (engine/prompt_encoder.h).
  std::vector<int32_t> EncodePrompt(std::span<const PromptPiece> pieces, std::string_view salt);

  const ModelRunner& runner() const { return *runner_; }
  ModelRunner& runner() { return *runner_; }
  const LoadedModel& model() const { return runner_->model(); }
  const Batch& batch() const { return *batch_; }
  const KvCache& cache() const { return runner_->cache(); }
  const SchedulerOptions& scheduler_options() const { return options_.scheduler; }
  int context_length() const { return runner_->context_length(); }
  int vocab_size() const { return runner_->vocab_size(); }
  // Requests that wait for their first step, and those that have had it.
  int num_waiting() const;
  int num_running() const;
  EngineCounters counters() const;
  // The sequences under way, and the requests that they are of; any order.
  std::vector<std::pair<SequenceId, RequestId>> sequences() const;
  MemoryHeld memory_held() const;

  // Ends the process, saying what is wrong, when an invariant does not hold.
  void CheckInvariants() const;

 private:
  // What a row of logits of the step is for.
  struct RowUse {
    RequestState* request = nullptr;
    int member = 0;          // of the request's sequences
    int position = 0;        // of the token that the row follows
    int num_tokens = 0;      // of the sequence
    bool is_prompt = false;  // tells a prompt token's log-probability; a draw otherwise
    // Of a row of a sequence with drafts: how many the step has of it, how many lie up to this row,
    // and the one that the next row is behind (-1: this is the last row). A row behind a draft is
    // used only where that draft is drawn.
    int num_drafts = 0;
    int draft_idx = 0;
    int32_t next_draft = -1;
  };
  struct Draw;

  explicit Engine(const EngineOptions& options);
  Result<RequestId> Enqueue(Request request, RequestHooks hooks);
  Status CreateTiers();
  Status CalibratePrefill();
  void TellPrefillCost() const;
  double NowMs() const;

  std::vector<RowUse> WantedRows(std::span<const StepItem> items, std::vector<int>& wanted) const;
  // The forward pass. Items that cannot be computed are taken out, and their requests end. Row i of
  // the logits is for use i.
  std::vector<RowUse> Compute(std::vector<StepItem>& items);
  Status ComputeRows(std::span<const StepItem> items, std::vector<RowUse>& uses);

  // Drafts (engine_drafts.cc).
  void AddDrafts(StepPlan& plan);
  bool MayDraft(const RequestState& request) const;
  Drafter& DrafterOf(RequestState& request, int member);
  static bool StripDrafts(std::span<StepItem> items);
  // Whether the drawn token is the draft that the row's next row is behind.
  bool TakesDraft(const RowUse& use, int32_t token);
  void NoteStepTime(const StepPlan& plan, int num_rows, double duration_ms);
  double DraftsFactor(const StepPlan& plan, int num_rows) const;

  // The requests that the final hidden states of rows `wanted` are for, row by row.
  std::vector<RequestState*> WantedStates(std::span<const StepItem> items,
                                          std::vector<int>& wanted) const;
  void AddStates(std::span<RequestState* const> owners, std::span<const float> states);
  void FinishEmbeddings(std::span<const StepItem> items);
  Result<int64_t> MaxPinnedBlocks() const;
  Status StartPin(const PinSpec& spec, const std::function<void(Result<PinInfo>)>& done);
  void FinishPins(std::span<const StepItem> items);
  void EndPin(RequestState& request, FinishReason reason);
  void UseRows(std::span<const RowUse> uses);
  void SampleDraws(std::span<Draw> draws, std::span<const RowUse> uses);
  void TellPromptLogProbs(const RowUse& use, std::span<const float> logits);
  Result<int> LongestSequence(const Request& request) const;
  void NoteAdmission(RequestState& request);
  void CountPrompt(const RequestState& request);
  void NoteFirstToken(RequestState& request);
  void TakeDraw(RequestState& request, int member, SampledToken sampled);
  void TakeProposals(RequestState& request, int member, std::vector<TokenLogProb> proposals);
  void AdvanceBeams(RequestState& request);
  void FinishBeams(RequestState& request, FinishReason reason);

  SequenceId AddMember(RequestState& request, int member, SequenceId sequence);
  void RemoveMember(RequestState& request, int member);
  void EndMember(RequestState& request, int member);
  void Finish(RequestState& request, FinishReason reason, Status status = {});
  void Remember(const RequestState& request, const Choice& choice);
  void Deliver();
  std::span<const float> LogitsOf(size_t row) const;

  EngineOptions options_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Batch> batch_;
  // Tiers go before the cache whose memory they write to.
  std::unique_ptr<TierSet> tiers_;    // null without tiers
  std::unique_ptr<TierLoads> loads_;  // null without tiers
  double last_step_ms_ = 0;           // when the last request ended
  std::unique_ptr<PinSet> pins_;
  std::unique_ptr<AnswerIndex> answers_;  // null: an answer that comes back is tokenized anew
  EngineCounters counters_;
  DraftPolicy draft_policy_;
  std::unique_ptr<EngineTrace> trace_;  // null: nobody is told
  std::function<void(const StepReport&)> observer_;

  std::map<RequestId, std::unique_ptr<RequestState>> requests_;  // under way
  std::vector<std::unique_ptr<RequestState>> ended_;             // to be delivered
  std::unordered_map<SequenceId, std::pair<RequestState*, int>> owners_;
  std::vector<float> logits_;            // [rows of the step][vocab_size]
  std::vector<float> states_;            // [wanted rows][hidden_width]
  std::vector<SamplerScratch> scratch_;  // [threads]
  std::chrono::steady_clock::time_point start_;
  RequestId next_id_ = 1;
  int idle_steps_ = 0;  // in a row
  bool in_step_ = false;
};

}  // namespace quire
