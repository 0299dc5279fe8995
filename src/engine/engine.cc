#include "engine/engine.h"

#include <algorithm>

#include "engine/engine_trace.h"
#include "engine/pin_set.h"
#include "engine/prompt_encoder.h"
#include "engine/request_check.h"
#include "engine/request_state.h"
#include "sampling/seed.h"

namespace quire {
namespace {

// Logits rows of prompt positions at a time: 39 MB of a vocabulary of 152 k.
constexpr int kPromptLogitsRows = 64;
// Steps in a row in which nothing could be computed before a request is given up.
constexpr int kMaxIdleSteps = 16;
// That a step waits for tiers where there is nothing else to do.
constexpr std::chrono::milliseconds kTierPause{1};

// An answer's ids are worth their memory while the cache holds its entries: a few times the text
// and ids of as many tokens as that has slots.
size_t AnswerIndexBytes(const KvCache& cache) {
  constexpr size_t kBytesPerSlot = 64;
  const KvUsage usage = cache.usage();
  const size_t num_slots = static_cast<size_t>(usage.total_blocks) * kBlockSlots;
  return std::clamp(num_slots * kBytesPerSlot, size_t{1} << 20, AnswerIndex::kMaxBytes);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(const std::filesystem::path& path,
                                               const EngineOptions& options) {
  if (options.scheduler.max_sequences < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "{} sequences at once; expected 1 or more",
                     options.scheduler.max_sequences);
  }
  const int max_drafts = options.speculation.max_drafts;
  if (max_drafts < 1 || max_drafts > kMostDrafts) {
    return MakeError(ErrorCode::kInvalidArgument, "{} drafts at a time; expected 1 to {}",
                     max_drafts, kMostDrafts);
  }
  std::unique_ptr<Engine> engine(new Engine(options));
  RunnerOptions& runner = engine->options_.runner;
  SchedulerOptions& scheduler = engine->options_.scheduler;
  runner.max_batched_tokens = scheduler.max_batched_tokens;
  runner.num_sequences = std::max(runner.num_sequences, 1);
  if (options.speculation.type != SpeculationType::kNone) {
    // Each draft has a row, as far as there are drafts in a batch of so many.
    const int64_t rows = int64_t{runner.num_sequences} * (1 + options.speculation.max_drafts);
    runner.logits_rows = std::max(runner.num_sequences,
                                  static_cast<int>(std::min<int64_t>(StepTimes::kMostRows, rows)));
  }
  QUIRE_ASSIGN_OR_RETURN(engine->runner_, ModelRunner::Create(path, runner));
  if (options.reuse_sampled_ids) {
    engine->answers_ = std::make_unique<AnswerIndex>(AnswerIndexBytes(engine->cache()));
  }
  engine->batch_ = std::make_unique<Batch>(engine->runner_->cache(), scheduler);
  QUIRE_RETURN_IF_ERROR(engine->CreateTiers());
  QUIRE_ASSIGN_OR_RETURN(const int64_t max_pinned_blocks, engine->MaxPinnedBlocks());
  engine->pins_ = std::make_unique<PinSet>(max_pinned_blocks, engine->cache().layout().block_bytes);
  engine->scratch_.resize(engine->runner_->threads().num_threads());
  if (options.trace != nullptr) {
    engine->trace_ =
        std::make_unique<EngineTrace>(*options.trace, *engine->runner_, engine->start_);
    const std::string& name = engine->model().config().name;
    engine->trace_->TellRun(name.empty() ? path.stem().string() : name);
    engine->runner_->cache().SetWatch(
        [trace = engine->trace_.get()](const BlockNote& note) { trace->BlockChanged(note); });
  }
  return engine;
}

Engine::Engine(const EngineOptions& options)
    : options_(options), start_(std::chrono::steady_clock::now()) {}

// Tier threads are done with the blocks that they write to before anybody gives these back.
Engine::~Engine() {
  if (trace_) runner_->cache().SetWatch({});
  if (tiers_) runner_->cache().SetOffer({});
  tiers_.reset();
}

double Engine::NowMs() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
      .count();
}

Result<RequestId> Engine::Submit(Request request, RequestHooks hooks) {
  const Result<RequestId> id = Enqueue(std::move(request), std::move(hooks));
  if (id.ok() && trace_) trace_->RequestCame(*requests_.at(*id));
  return id;
}

Result<RequestId> Engine::Enqueue(Request request, RequestHooks hooks) {
  QUIRE_RETURN_IF_ERROR(
      CheckRequest(request, {.vocab_size = vocab_size(),
                             .context_length = context_length(),
                             .max_batched_tokens = options_.scheduler.max_batched_tokens,
                             .layout = &cache().layout()}));
  QUIRE_ASSIGN_OR_RETURN(const int longest, LongestSequence(request));
  if (options_.max_queue > 0 && num_waiting() >= options_.max_queue) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{} requests wait already, as many as may; try again later", num_waiting());
  }
  auto state = std::make_unique<RequestState>();
  state->id = next_id_;
  state->request = std::move(request);
  state->hooks = std::move(hooks);
  const Request& asked = state->request;
  if (asked.sampling.seed) {
    state->result.seed = *asked.sampling.seed;
  } else {
    QUIRE_ASSIGN_OR_RETURN(state->result.seed, RandomSeed());
  }
  state->root = RootOf(runner_->fingerprint(), asked.cache_salt);
  state->submitted_ms = NowMs();
  state->result.id = state->id;
  state->result.prompt_tokens = static_cast<int>(asked.prompt.size());

  const Tokenizer& tokenizer = model().tokenizer();
  const int room = longest - state->result.prompt_tokens;
  const int max_tokens = asked.max_tokens < 0 ? room : std::min(asked.max_tokens, room);
  if (asked.embedding) {
    state->embedding.emplace(*asked.embedding, state->result.prompt_tokens,
                             runner_->hidden_width());
  } else if (asked.beams.width > 0) {
    state->beam_enders = asked.stop_token_ids;
    if (!asked.ignore_end_of_text) {
      const auto ids = tokenizer.end_of_text_ids();
      state->beam_enders.insert(state->beam_enders.end(), ids.begin(), ids.end());
    }
    state->beams.emplace(
        BeamSearchOptions{.beams = asked.beams,
                          .max_tokens = max_tokens,
                          .min_tokens = asked.min_tokens,
                          .ends_answer = [&enders = state->beam_enders](int32_t token) {
                            return std::ranges::find(enders, token) != enders.end();
                          }});
  } else {
    for (int i = 0; i < asked.num_choices; ++i) {
      QUIRE_ASSIGN_OR_RETURN(Answer answer,
                             Answer::Create(tokenizer, asked, i, state->result.seed, max_tokens));
      state->answers.push_back(std::move(answer));
    }
  }
  if (asked.prompt_logprobs) state->result.prompt_log_probs.resize(asked.prompt.size());

  SequenceSpec spec{.tokens = asked.prompt,
                    .root = state->root,
                    .salt = asked.cache_salt,
                    .priority = asked.priority,
                    .arrival_ms = state->submitted_ms,
                    .reads_cache = asked.use_kv_cache && !asked.prompt_logprobs && !asked.embedding,
                    .keeps_cache = asked.use_kv_cache,
                    .max_chunk = asked.prompt_logprobs ? kPromptLogitsRows : 0,
                    .tenant = asked.tenant,
                    .tenant_max_blocks = asked.tenant_max_blocks};
  if (asked.timeout_ms) spec.deadline_ms = state->submitted_ms + *asked.timeout_ms;
  state->members.push_back(0);
  AddMember(*state, 0, batch_->Add(std::move(spec)));
  requests_.emplace(next_id_, std::move(state));
  return next_id_++;
}

// The tokens that a request's longest sequence may have: the context, or what its tenant's quota
// holds for one sequence.
Result<int> Engine::LongestSequence(const Request& request) const {
  const int64_t quota = request.tenant_max_blocks;
  if (quota < 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a tenant's quota is {} blocks; expected 1 or more, or 0 for none", quota);
  }
  if (quota == 0) return context_length();
  const auto blocks_of = [&](int num_tokens) {
    return cache().layout().PeakBlocks(num_tokens, options_.scheduler.max_batched_tokens);
  };
  int longest = 0;
  for (int beyond = context_length() + 1; beyond - longest > 1;) {
    const int middle = longest + (beyond - longest) / 2;
    (blocks_of(middle) <= quota ? longest : beyond) = middle;
  }
  const int needed = static_cast<int>(request.prompt.size()) + (request.embedding ? 0 : 1);
  if (needed <= longest) return longest;
  return MakeError(
      ErrorCode::kContextLength,
      "the prompt has {} tokens and needs {} blocks of keys and values{}; the quota of "
      "{} blocks has room for {} tokens",
      request.prompt.size(), blocks_of(needed),
      request.embedding ? "" : " with an answer of one token", quota, longest);
}

void Engine::Abort(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Finish(*found->second, FinishReason::kAborted);
  if (!in_step_) Deliver();
}

void Engine::AbortAll() {
  while (!requests_.empty()) Abort(requests_.begin()->first);
}

bool Engine::Step() {
  runner_->cache().SetPurpose({.reason = "unpin"});
  pins_->Expire(NowMs());
  if (requests_.empty()) return false;
  in_step_ = true;
  if (loads_) batch_->PumpLoads(NowMs(), std::chrono::steady_clock::now());
  StepPlan plan = batch_->Plan(NowMs());
  AddDrafts(plan);
  if (trace_) trace_->BeginStep(plan, owners_);
  std::vector<StepItem> items = batch_->Begin(plan);
  if (trace_) trace_->Admitted(*batch_);
  // Who waits, or finds no block, may be helped by what tiers hand back.
  const bool awaits_tiers = items.empty() && loads_ && !loads_->is_idle();
  bool has_moved = !items.empty() || awaits_tiers;
  for (const PlanLine& line : plan.lines) {
    if (line.action != PlanAction::kExpire) continue;
    has_moved = true;
    // Its fellows of the same request have gone with the first.
    if (const auto owner = owners_.find(line.sequence); owner != owners_.end()) {
      Finish(*owner->second.first, FinishReason::kTimeout);
    }
  }
  if (!items.empty()) {
    const double start = NowMs();
    const std::vector<RowUse> uses = Compute(items);
    const double duration = NowMs() - start;
    if (trace_) trace_->Computed(items, uses.size(), duration);
    batch_->Commit(items);
    int num_rows = 0;
    for (const StepItem& item : items) num_rows += item.num_tokens;
    batch_->ObserveStep(plan, duration, DraftsFactor(plan, num_rows));
    ++counters_.steps;
    counters_.computed_tokens += num_rows;
    if (observer_) {
      std::vector<LogitsRow> rows;
      for (size_t i = 0; i < uses.size(); ++i) {
        if (uses[i].draft_idx > 0) continue;
        rows.push_back({.sequence = uses[i].request->members[uses[i].member],
                        .position = uses[i].position,
                        .logits = LogitsOf(i)});
      }
      observer_({.plan = &plan, .items = items, .logits = rows, .duration_ms = duration});
    }
    UseRows(uses);
    NoteStepTime(plan, num_rows, NowMs() - start);
    FinishEmbeddings(items);
    FinishPins(items);
  }
  idle_steps_ = has_moved ? 0 : idle_steps_ + 1;
  if (idle_steps_ > kMaxIdleSteps && !requests_.empty()) {
    Finish(*requests_.begin()->second, FinishReason::kError,
           MakeError(ErrorCode::kResourceExhausted,
                     "the KV cache of {} blocks has no room for the request",
                     cache().usage().total_blocks));
    idle_steps_ = 0;
  }
  if (awaits_tiers) tiers_->WaitForEvents(kTierPause);
  if (trace_) trace_->EndStep(counters_.steps);
  in_step_ = false;
  Deliver();
  last_step_ms_ = NowMs();
  if (!requests_.empty()) return true;
  runner_->cache().ReturnIdleMemory();
  return false;
}

MemoryHeld Engine::memory_held() const {
  const PagedKvView kv = cache().view();
  MemoryHeld held{
      .weights = model().packed_weights(),
      .kv = {kv.base, static_cast<size_t>(cache().usage().total_blocks) * kv.block_bytes},
      .workspace = runner_->decoder().workspace(),
      .attention_bytes = runner_->decoder().attention_bytes(),
      .logits_bytes = logits_.size() * sizeof(float)};
  const size_t vocab = static_cast<size_t>(vocab_size());
  // Of what is reserved, what a vocabulary can fill: nothing else is ever written.
  const auto filled = [&](const auto& values) {
    return std::min(values.capacity(), vocab) * sizeof(values[0]);
  };
  for (const SamplerScratch& scratch : scratch_) {
    held.sampling_bytes += filled(scratch.logits) + filled(scratch.weights) + filled(scratch.keys);
  }
  return held;
}

void Engine::NoteAdmission(RequestState& request) {
  const SequenceId leader = request.members[0];
  if (leader == 0 || batch_->admitted_ms(leader) < 0) return;
  request.result.cached_tokens = batch_->cached_tokens(leader);
  request.result.cached_by_tier = batch_->cached_by_tier(leader);
  request.result.tier_wait_ms = batch_->tier_wait_ms(leader);
  request.result.miss = batch_->miss(leader);
  request.result.queue_ms = batch_->admitted_ms(leader) - request.submitted_ms;
  request.was_admitted = true;
}

void Engine::NoteFirstToken(RequestState& request) {
  NoteAdmission(request);
  request.has_forked = true;
  request.first_token_at_ms = NowMs();
  CountPrompt(request);
}

void Engine::CountPrompt(const RequestState& request) {
  TellPrefillCost();
  const RequestResult& result = request.result;
  counters_.prompt_tokens += result.prompt_tokens;
  counters_.cached_tokens += result.cached_tokens;
  ++counters_.misses[static_cast<size_t>(result.miss.reason)];
  counters_.tier_wait_ms += result.tier_wait_ms;
  counters_.max_tier_wait_ms = std::max(counters_.max_tier_wait_ms, result.tier_wait_ms);
  if (result.miss.reason == MissReason::kNotRead) return;
  counters_.prefix_cache_queries += result.prompt_tokens;
  counters_.prefix_cache_hits += result.cached_tokens;
}

void Engine::TakeDraw(RequestState& request, int member, SampledToken sampled) {
  if (!request.has_forked) {
    NoteFirstToken(request);
    for (int i = 1; i < request.request.num_choices; ++i) {
      request.members.push_back(0);
      AddMember(request, i, batch_->Fork(request.members[0]));
    }
  }
  request.last_token_at_ms = NowMs();
  ++counters_.generated_tokens;
  Answer& answer = request.answers[member];
  const int32_t token = sampled.token;
  const std::string text = answer.Push(std::move(sampled));
  if (request.hooks.on_piece) {
    const std::vector<LogProbs>& log_probs = answer.choice().log_probs;
    request.hooks.on_piece({.choice = member,
                            .token = token,
                            .text = text,
                            .log_probs = log_probs.empty() ? nullptr : &log_probs.back()});
    if (request.has_ended) return;  // the hook ended it
  }
  if (answer.ended()) {
    EndMember(request, member);
    return;
  }
  batch_->Append(request.members[member], token);
  if (static_cast<size_t>(member) < request.drafters.size() && request.drafters[member]) {
    request.drafters[member]->Push(batch_->tokens(request.members[member]), draft_policy_.rates());
  }
  if (!request.request.use_kv_cache) batch_->Forget(request.members[member]);
}

SequenceId Engine::AddMember(RequestState& request, int member, SequenceId sequence) {
  request.members[member] = sequence;
  owners_[sequence] = {&request, member};
  return sequence;
}

void Engine::RemoveMember(RequestState& request, int member) {
  SequenceId& sequence = request.members[member];
  if (sequence == 0) return;
  owners_.erase(sequence);
  request.result.num_preemptions += batch_->num_preemptions(sequence);
  batch_->Remove(sequence);
  sequence = 0;
  if (static_cast<size_t>(member) < request.drafters.size()) request.drafters[member].reset();
}

void Engine::EndMember(RequestState& request, int member) {
  RemoveMember(request, member);
  Remember(request, request.answers[member].choice());
  if (std::ranges::all_of(request.answers, [](const Answer& answer) { return answer.ended(); })) {
    Finish(request, FinishReason::kStop);
  }
}

void Engine::Remember(const RequestState& request, const Choice& choice) {
  if (!answers_ || request.request.prompt_pieces.empty() || !request.request.use_kv_cache) {
    return;
  }
  answers_->Add(request.root, model().tokenizer(), request.request.prompt_pieces,
                request.request.prompt, choice.text, choice.tokens);
}

void Engine::Finish(RequestState& request, FinishReason reason, Status status) {
  if (request.has_ended) return;
  request.has_ended = true;
  RequestResult& result = request.result;
  result.status = std::move(status);
  if (!request.has_forked) NoteAdmission(request);
  for (size_t i = 0; i < request.members.size(); ++i) RemoveMember(request, static_cast<int>(i));
  for (Answer& answer : request.answers) {
    if (!answer.ended()) {
      const std::string text = answer.Finish(reason);
      if (request.has_forked) Remember(request, answer.choice());
      if (request.hooks.on_piece && !text.empty()) {
        request.hooks.on_piece({.choice = answer.choice().index, .token = -1, .text = text});
      }
    }
    result.choices.push_back(answer.TakeChoice());
  }
  if (request.beams && request.has_forked) FinishBeams(request, reason);
  if (request.embedding && result.status.ok() && result.embedding.empty()) {
    result.status =
        MakeError(ErrorCode::kInterrupted, "the embedding was ended ({}) at token {} of {}",
                  NameOf(reason), request.embedding->next_position(), result.prompt_tokens);
  }
  if (request.pin) EndPin(request, reason);
  const double now = NowMs();
  result.total_ms = now - request.submitted_ms;
  if (!request.was_admitted) result.queue_ms = result.total_ms;
  if (request.first_token_at_ms >= 0) {
    result.first_token_ms = request.first_token_at_ms - request.submitted_ms;
    result.decode_ms = std::max(0.0, request.last_token_at_ms - request.first_token_at_ms);
  }
  counters_.requests_finished += request.pin ? 0 : 1;
  if (trace_) trace_->RequestEnded(request, reason);
  const auto found = requests_.find(request.id);
  ended_.push_back(std::move(found->second));
  requests_.erase(found);
}

void Engine::Deliver() {
  while (!ended_.empty()) {
    // Hooks may submit and abort: the list may grow meanwhile.
    std::unique_ptr<RequestState> request = std::move(ended_.front());
    ended_.erase(ended_.begin());
    if (request->pin) request->on_pinned(std::move(*request->pinned));
    if (request->hooks.on_finish) request->hooks.on_finish(std::move(request->result));
  }
}

void Engine::SetStepObserver(std::function<void(const StepReport&)> observer) {
  observer_ = std::move(observer);
}

std::vector<int32_t> Engine::EncodePrompt(std::span<const PromptPiece> pieces,
                                          std::string_view salt) {
  return quire::EncodePrompt(model().tokenizer(), answers_.get(),
                             RootOf(runner_->fingerprint(), salt), pieces);
}

int Engine::num_waiting() const {
  return static_cast<int>(std::ranges::count_if(requests_, [this](const auto& entry) {
    const SequenceId leader = entry.second->members[0];
    return leader != 0 && batch_->admitted_ms(leader) < 0;
  }));
}

int Engine::num_running() const { return static_cast<int>(requests_.size()) - num_waiting(); }

std::vector<std::pair<SequenceId, RequestId>> Engine::sequences() const {
  std::vector<std::pair<SequenceId, RequestId>> sequences;
  sequences.reserve(owners_.size());
  for (const auto& [sequence, owner] : owners_) sequences.emplace_back(sequence, owner.first->id);
  return sequences;
}

void Engine::CheckInvariants() const {
  batch_->CheckInvariants(pins_->tables());
  QUIRE_CHECK(pins_->num_blocks() <= pins_->max_blocks(), "pins hold {} blocks of {}",
              pins_->num_blocks(), pins_->max_blocks());
  runner_->cache().CheckInvariants();
  size_t num_members = 0;
  for (const auto& [id, request] : requests_) {
    QUIRE_CHECK(!request->has_ended, "request {} has ended and is under way", id);
    for (const SequenceId sequence : request->members) {
      if (sequence == 0) continue;
      ++num_members;
      QUIRE_CHECK(owners_.at(sequence).first == request.get(), "sequence {}", sequence);
    }
  }
  QUIRE_CHECK(num_members == owners_.size(), "{} sequences of requests, {} owned", num_members,
              owners_.size());
}

}  // namespace quire
