#include "engine/equality_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "sampling/log_probs.h"

namespace quire::testing {
namespace {

// A load of a few hundred tokens that takes so many steps does not end.
constexpr int kMaxSteps = 20000;

LoadEvents EventsOf(const Engine& engine, const std::vector<LoadAnswer>& answers) {
  const KvCounters& kv = engine.cache().counters();
  const BatchCounters& batch = engine.batch().counters();
  const DraftCounters& drafts = engine.counters().drafts;
  LoadEvents events{.requests = std::ssize(answers),
                    .partial_hits = kv.partial_hits,
                    .evictions = kv.blocks_evicted,
                    .preemptions = batch.preemptions,
                    .forks = batch.forks,
                    .window_releases = kv.window_releases,
                    .shared_waits = batch.shared_waits,
                    .drafts_accepted = drafts.accepted,
                    .drafts_refused = drafts.draft_tokens - drafts.accepted,
                    .disk_tokens = batch.tier_tokens[static_cast<size_t>(TierKind::kDisk)],
                    .remote_tokens = batch.tier_tokens[static_cast<size_t>(TierKind::kRemote)],
                    .takeovers = batch.takeovers,
                    .spilled_blocks = batch.blocks_spilled};
  events.restored_tokens = events.disk_tokens + events.remote_tokens;
  for (const TierStatus& tier : engine.TierStatuses()) {
    for (const int64_t count : tier.counters.faults) events.faults += count;
  }
  events.copies_on_write = std::max<int64_t>(
      0, kv.blocks_copied - kv.partial_hits * engine.cache().layout().num_groups());
  for (const LoadAnswer& answer : answers) {
    events.prefix_hits += answer.result.cached_tokens > 0;
    events.restored_tokens -=
        answer.result.cached_by_tier.disk + answer.result.cached_by_tier.remote;
    for (const Choice& choice : answer.result.choices) {
      events.aborts += choice.finish_reason == FinishReason::kAborted && !choice.tokens.empty();
    }
  }
  return events;
}

// The requests of a load as they come, run and go.
class Clients {
 public:
  Clients(Engine& engine, const Load& load)
      : engine_(engine), load_(load), answers_(load.requests.size()), sent_(load.requests.size()) {}

  bool all_sent() const {
    return std::ranges::all_of(sent_, [](const Sent& sent) { return sent.is_sent; });
  }

  void Send(int step) {
    for (size_t i = 0; i < sent_.size(); ++i) {
      const LoadRequest& wanted = load_.requests[i];
      if (sent_[i].is_sent || wanted.arrival_step > step) continue;
      if (wanted.follows >= 0 && !HasEnded(static_cast<size_t>(wanted.follows))) continue;
      SendOne(i, step);
    }
  }

  void Abort(int step) {
    for (size_t i = 0; i < sent_.size(); ++i) {
      const int after = load_.requests[i].abort_after;
      if (after >= 0 && sent_[i].is_sent && step - sent_[i].step >= after && !HasEnded(i)) {
        engine_.Abort(sent_[i].id);
      }
    }
  }

  std::vector<LoadAnswer> TakeAnswers() { return std::move(answers_); }

 private:
  struct Sent {
    bool is_sent = false;
    int step = 0;
    RequestId id = 0;
  };

  bool HasEnded(size_t i) const { return answers_[i].was_refused || answers_[i].num_ends > 0; }

  void SendOne(size_t i, int step) {
    LoadAnswer& answer = answers_[i];
    answer.request = load_.requests[i].request;
    if (load_.requests[i].follows >= 0) {
      const LoadAnswer& before = answers_[static_cast<size_t>(load_.requests[i].follows)];
      std::vector<int32_t> prompt = before.request.prompt;
      if (!before.result.choices.empty()) {
        const std::vector<int32_t>& tokens = before.result.choices[0].tokens;
        prompt.insert(prompt.end(), tokens.begin(), tokens.end());
      }
      prompt.insert(prompt.end(), answer.request.prompt.begin(), answer.request.prompt.end());
      answer.request.prompt = std::move(prompt);
    }
    answer.told.resize(static_cast<size_t>(answer.request.num_choices));
    const auto id =
        engine_.Submit(answer.request,
                       {.on_piece =
                            [&answer](const AnswerPiece& piece) {
                              if (piece.token < 0) return;
                              answer.told[static_cast<size_t>(piece.choice)].push_back(piece.token);
                            },
                        .on_finish =
                            [&answer](RequestResult result) {
                              answer.result = std::move(result);
                              ++answer.num_ends;
                            }});
    sent_[i] = {.is_sent = true, .step = step, .id = id.ok() ? *id : 0};
    answer.was_refused = !id.ok();
    EXPECT_TRUE(id.ok() || id.error().code == ErrorCode::kContextLength) << id.error().message;
  }

  Engine& engine_;
  const Load& load_;
  std::vector<LoadAnswer> answers_;
  std::vector<Sent> sent_;
};

void PrintPlan(const Engine& engine, int step) {
  const KvUsage usage = engine.cache().usage();
  fmt::print("step {}: {} blocks used, {} cached, {} free\n{}\n", step, usage.used_blocks,
             usage.cached_blocks, usage.free_blocks, quire::ToString(engine.batch().Plan(0)));
}

void ExpectSame(const LogProbs& one, const LogProbs& other) {
  EXPECT_EQ(one.chosen.token, other.chosen.token);
  EXPECT_EQ(one.chosen.log_prob, other.chosen.log_prob);
  ASSERT_EQ(one.top.size(), other.top.size());
  for (size_t i = 0; i < one.top.size(); ++i) {
    EXPECT_EQ(one.top[i].token, other.top[i].token);
    EXPECT_EQ(one.top[i].log_prob, other.top[i].log_prob);
  }
}

void ExpectSameChoice(const Choice& part, const Choice& whole) {
  EXPECT_EQ(part.index, whole.index);
  const bool is_cut =
      part.finish_reason == FinishReason::kAborted || part.finish_reason == FinishReason::kTimeout;
  if (is_cut) {
    ASSERT_LE(part.tokens.size(), whole.tokens.size());
    EXPECT_TRUE(std::ranges::equal(part.tokens, std::span(whole.tokens).first(part.tokens.size())));
  } else {
    EXPECT_EQ(part.tokens, whole.tokens);
    EXPECT_EQ(part.text, whole.text);
    EXPECT_EQ(part.finish_reason, whole.finish_reason);
    EXPECT_EQ(part.matched_stop, whole.matched_stop);
    EXPECT_EQ(part.matched_stop_token, whole.matched_stop_token);
    EXPECT_EQ(part.cumulative_log_prob, whole.cumulative_log_prob);
    EXPECT_EQ(part.score, whole.score);
    EXPECT_EQ(part.log_probs.size(), whole.log_probs.size());
  }
  ASSERT_LE(part.log_probs.size(), whole.log_probs.size());
  for (size_t i = 0; i < part.log_probs.size(); ++i) {
    SCOPED_TRACE(fmt::format("token {} of {}", i, whole.tokens.size()));
    ExpectSame(part.log_probs[i], whole.log_probs[i]);
    if (::testing::Test::HasFailure()) return;  // what follows differs too
  }
}

// The log-probabilities of a choice from the logits of its ids, all computed in one go: without a
// fork, a share or a step of decoding.
void ExpectLogProbsOfIds(ModelRunner& runner, const Request& request, const Choice& choice) {
  if (choice.tokens.empty()) return;
  std::vector<int32_t> tokens = request.prompt;
  tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end() - 1);
  const auto vocab = static_cast<size_t>(runner.vocab_size());
  std::vector<float> rows(choice.tokens.size() * vocab);
  const Status status = runner.ComputeRows(tokens, static_cast<int>(choice.tokens.size()), rows);
  ASSERT_TRUE(status.ok()) << status.error().message;
  double sum = 0;
  for (size_t i = 0; i < choice.tokens.size(); ++i) {
    SCOPED_TRACE(fmt::format("token {} of {}, by its ids", i, choice.tokens.size()));
    const auto log_probs = ComputeLogProbs(std::span(rows).subspan(i * vocab, vocab),
                                           request.sampling.logprobs.value_or(0), choice.tokens[i]);
    ASSERT_TRUE(log_probs.ok()) << log_probs.error().message;
    sum += log_probs->chosen.log_prob;
    if (!choice.log_probs.empty()) ExpectSame(choice.log_probs[i], *log_probs);
    if (::testing::Test::HasFailure()) return;
  }
  if (request.beams.width > 0 || request.sampling.logprobs) {
    EXPECT_EQ(choice.cumulative_log_prob, sum);
  }
}

void ExpectPlausible(const LoadAnswer& answer) {
  const RequestResult& result = answer.result;
  EXPECT_EQ(answer.num_ends, 1);
  const bool is_cut_embedding = answer.request.embedding && !result.status.ok() &&
                                result.status.error().code == ErrorCode::kInterrupted;
  EXPECT_TRUE(result.status.ok() || is_cut_embedding) << result.status.error().message;
  EXPECT_EQ(result.prompt_tokens, std::ssize(answer.request.prompt));
  EXPECT_GE(result.cached_tokens, 0);
  EXPECT_LT(result.cached_tokens, result.prompt_tokens);
  EXPECT_EQ(result.cached_by_tier.sum(), result.cached_tokens);
  if (answer.request.prompt_logprobs || answer.request.embedding || !answer.request.use_kv_cache) {
    EXPECT_EQ(result.cached_tokens, 0);
  }
  if (answer.request.beams.width > 0) return;
  for (const Choice& choice : result.choices) {
    EXPECT_EQ(answer.told[static_cast<size_t>(choice.index)], choice.tokens);
  }
}

// `part` may be cut short by an abort; otherwise all is equal.
void ExpectSameResult(const RequestResult& part, const RequestResult& whole) {
  EXPECT_EQ(part.prompt_tokens, whole.prompt_tokens);
  ASSERT_EQ(part.prompt_log_probs.size(), whole.prompt_log_probs.size());
  const bool is_cut =
      part.choices.empty() || std::ranges::any_of(part.choices, [](const Choice& c) {
        return c.finish_reason == FinishReason::kAborted ||
               c.finish_reason == FinishReason::kTimeout;
      });
  for (size_t i = 0; i < part.prompt_log_probs.size(); ++i) {
    SCOPED_TRACE(fmt::format("prompt token {}", i));
    if (is_cut && !part.prompt_log_probs[i]) continue;
    ASSERT_EQ(part.prompt_log_probs[i].has_value(), whole.prompt_log_probs[i].has_value());
    if (!part.prompt_log_probs[i]) continue;
    ExpectSame(*part.prompt_log_probs[i], *whole.prompt_log_probs[i]);
  }
  if (part.status.ok()) {  // not ended from outside
    EXPECT_EQ(part.embedding, whole.embedding);
  }
  EXPECT_EQ(part.choices.size(), whole.choices.size());
  for (size_t i = 0; i < std::min(part.choices.size(), whole.choices.size()); ++i) {
    SCOPED_TRACE(fmt::format("choice {}", i));
    ExpectSameChoice(part.choices[i], whole.choices[i]);
  }
}

// One request alone on a cold engine.
LoadAnswer RunAlone(Engine& engine, const Request& request) {
  LoadAnswer answer{.request = request};
  const auto id = engine.Submit(request, {.on_finish = [&answer](RequestResult result) {
                                  answer.result = std::move(result);
                                  ++answer.num_ends;
                                }});
  answer.was_refused = !id.ok();
  engine.RunUntilIdle();
  return answer;
}

}  // namespace

void LoadEvents::Add(const LoadEvents& other) {
  requests += other.requests;
  prefix_hits += other.prefix_hits;
  partial_hits += other.partial_hits;
  evictions += other.evictions;
  preemptions += other.preemptions;
  forks += other.forks;
  copies_on_write += other.copies_on_write;
  window_releases += other.window_releases;
  shared_waits += other.shared_waits;
  aborts += other.aborts;
  drafts_accepted += other.drafts_accepted;
  drafts_refused += other.drafts_refused;
  disk_tokens += other.disk_tokens;
  remote_tokens += other.remote_tokens;
  takeovers += other.takeovers;
  spilled_blocks += other.spilled_blocks;
  restored_tokens += other.restored_tokens;
  faults += other.faults;
}

std::string ToString(const LoadEvents& events) {
  return fmt::format(
      "{} requests, {} prefix hits, {} partial-block hits, {} evictions, {} preemptions, {} forks, "
      "{} copies on write, {} window releases, {} waits for a shared prefix, {} aborts, {} drafts "
      "accepted and {} refused, {} tokens "
      "from disk, {} from elsewhere ({} of them again after a preemption), {} takeovers, {} blocks "
      "spilled, {} faults",
      events.requests, events.prefix_hits, events.partial_hits, events.evictions,
      events.preemptions, events.forks, events.copies_on_write, events.window_releases,
      events.shared_waits, events.aborts, events.drafts_accepted, events.drafts_refused,
      events.disk_tokens, events.remote_tokens, events.restored_tokens, events.takeovers,
      events.spilled_blocks, events.faults);
}

std::vector<LoadAnswer> RunLoad(const Load& load, LoadEvents* events) {
  Result<std::unique_ptr<Engine>> made = Engine::Create(load.model.path, load.options);
  if (!made.ok()) {
    ADD_FAILURE() << made.error().message;
    return {};
  }
  Engine& engine = **made;
  Clients clients(engine, load);
  const bool prints_plans = std::getenv("QUIRE_EQUALITY_PLANS") != nullptr;
  int step = 0;
  for (bool is_busy = true; is_busy || !clients.all_sent(); ++step) {
    clients.Send(step);
    clients.Abort(step);
    engine.CheckInvariants();
    if (prints_plans) PrintPlan(engine, step);
    is_busy = engine.Step();
    engine.CheckInvariants();
    if (step > kMaxSteps) {
      ADD_FAILURE() << "not at its end after " << step << " steps; the next:\n"
                    << quire::ToString(engine.batch().Plan(0));
      break;
    }
  }
  // What tiers still bring for requests that have ended comes back to the pool.
  for (int i = 0; i < kMaxSteps && engine.cache().usage().used_blocks > 0; ++i) {
    engine.RunIdle();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine.FlushTiers();
  engine.CheckInvariants();
  std::vector<LoadAnswer> answers = clients.TakeAnswers();
  EXPECT_EQ(engine.cache().usage().used_blocks, 0);
  EXPECT_TRUE(engine.batch().empty());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    if (!answers[i].was_refused) ExpectPlausible(answers[i]);
  }
  if (events != nullptr) events->Add(EventsOf(engine, answers));
  return answers;
}

void ExpectAnswersAsAlone(const Load& load, const std::vector<LoadAnswer>& answers) {
  std::unique_ptr<Engine> engine;
  for (size_t i = 0; i < answers.size(); ++i) {
    const LoadAnswer& answer = answers[i];
    const bool was_aborted = load.requests[i].abort_after >= 0;
    SCOPED_TRACE(fmt::format("request {}: {} prompt tokens ({} cached), n {}, {} beams{}", i,
                             answer.request.prompt.size(), answer.result.cached_tokens,
                             answer.request.num_choices, answer.request.beams.width,
                             was_aborted ? ", to be aborted" : ""));
    if (engine == nullptr || load.has_fresh_engines) {
      Result<std::unique_ptr<Engine>> made = Engine::Create(load.model.path, load.solo_options);
      ASSERT_TRUE(made.ok()) << made.error().message;
      engine = std::move(*made);
    }
    engine->runner().cache().DropCached();
    const LoadAnswer alone = RunAlone(*engine, answer.request);
    ASSERT_EQ(answer.was_refused, alone.was_refused);
    if (answer.was_refused) continue;
    EXPECT_EQ(alone.result.cached_tokens, 0);
    // What beams have when they are cut is not what would have won.
    const bool is_cut_beams = was_aborted && answer.request.beams.width > 0;
    if (!is_cut_beams) ExpectSameResult(answer.result, alone.result);
    for (const Choice& choice : answer.result.choices) {
      ExpectLogProbsOfIds(engine->runner(), answer.request, choice);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

void ExpectSameAnswers(const std::vector<LoadAnswer>& ones, const std::vector<LoadAnswer>& others) {
  ASSERT_EQ(ones.size(), others.size());
  for (size_t i = 0; i < ones.size(); ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    ASSERT_EQ(ones[i].was_refused, others[i].was_refused);
    EXPECT_EQ(ones[i].request.prompt, others[i].request.prompt);
    const auto is_cut = [](const LoadAnswer& answer) {
      return std::ranges::any_of(answer.result.choices, [](const Choice& choice) {
        return choice.finish_reason == FinishReason::kAborted;
      });
    };
    // Of two that were cut, each is a beginning; what beams have when they are cut is not.
    const bool is_one_cut = is_cut(ones[i]);
    const bool is_other_cut = is_cut(others[i]);
    if (is_one_cut && (is_other_cut || ones[i].request.beams.width > 0)) continue;
    if (is_other_cut && ones[i].request.beams.width > 0) continue;
    if (is_one_cut) {
      ExpectSameResult(ones[i].result, others[i].result);
    } else {
      ExpectSameResult(others[i].result, ones[i].result);
    }
  }
}

}  // namespace quire::testing
