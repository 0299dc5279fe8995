#include "engine/engine_trace.h"

#include <algorithm>
#include <string>

#include "engine/model_runner.h"
#include "formats/printable.h"
#include "plan/machine_limits.h"
#include "plan/step_cost.h"

namespace quire {
namespace {

constexpr int kLimitReads = 3;
constexpr size_t kMaxText = 80;
constexpr size_t kMaxName = 256;
// Tokens that are shown where two texts part.
constexpr size_t kShownTokens = 8;

// Cache and trace name the same changes in the same order, as neither may know the other.
static_assert(static_cast<int>(BlockVerb::kRestore) == static_cast<int>(BlockChange::kRestore));
static_assert(static_cast<int>(BlockVerb::kEvict) == static_cast<int>(BlockChange::kEvict));

std::vector<TraceLayer> LayersOf(const ModelConfig& config, const KvLayout& layout) {
  std::vector<TraceLayer> layers;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const KvLayerShape shape{.num_kv_heads = layer.num_kv_heads,
                             .key_dim = layer.key_dim,
                             .value_dim = layer.value_dim,
                             .window = layer.window};
    const auto alone = KvLayout::Make({&shape, 1}, layout.type);
    layers.push_back({.group = layout.layers[i].group,
                      .window = layer.window,
                      .num_heads = layer.num_heads,
                      .num_kv_heads = layer.num_kv_heads,
                      .key_dim = layer.key_dim,
                      .value_dim = layer.value_dim,
                      .kv_bytes_per_token = alone.ok() ? alone->bytes_per_token : 0});
  }
  return layers;
}

// Of the request as a whole: how its answers ended, where nothing else ended it.
std::string_view ReasonOf(const RequestResult& result, FinishReason reason) {
  if (!result.status.ok()) return NameOf(FinishReason::kError);
  if (reason != FinishReason::kStop) return NameOf(reason);
  const bool is_cut = std::ranges::any_of(result.choices, [](const Choice& choice) {
    return choice.finish_reason == FinishReason::kLength;
  });
  return NameOf(is_cut ? FinishReason::kLength : FinishReason::kStop);
}

std::string TextOf(std::span<const int32_t> tokens, const Tokenizer& tokenizer) {
  return Printable(tokenizer.Decode(tokens.first(std::min(tokens.size(), kShownTokens)),
                                    /*with_control=*/true),
                   kMaxText);
}

// The sentence, and where texts part, both of them.
std::string MissSentence(const RequestState& request, const Tokenizer& tokenizer) {
  const PrefixMiss& miss = request.result.miss;
  std::string text = MissText(miss, MissReader::kOperator);
  if (miss.reason != MissReason::kDiffers) return text;
  const std::span<const int32_t> prompt = request.request.prompt;
  const size_t position = std::min<size_t>(std::max(miss.position, 0), prompt.size());
  return text + ": \"" + TextOf(miss.cached_tokens, tokenizer) + "\", where the prompt has \"" +
         TextOf(prompt.subspan(position), tokenizer) + "\"";
}

bool SaysTheSame(const StepLine& one, const StepLine& other) {
  return one.sequence == other.sequence && one.action == other.action &&
         one.reason == other.reason && one.other == other.other;
}

}  // namespace

EngineTrace::EngineTrace(TraceSink& sink, ModelRunner& runner, Clock::time_point start)
    : sink_(sink), runner_(runner), start_(start), detail_(sink.detail()) {}

double EngineTrace::NowMs() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
}

void EngineTrace::Tell(TraceEvent event) {
  if (in_step_) {
    held_.push_back(std::move(event));
  } else {
    sink_.Add(event);
  }
}

void EngineTrace::TellRun(std::string_view name) {
  const ModelConfig& config = runner_.model().config();
  const KvCache& cache = runner_.cache();
  const double unix_now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::span<const std::byte> weights = WeightBytes(runner_.model().weights());
  RunEvent run{.unix_time = unix_now - NowMs() / 1000,
               .quire = QUIRE_VERSION,
               .model = std::string(name),
               .family = config.architecture,
               .num_layers = config.num_layers(),
               .hidden_width = config.d_model,
               .vocab_size = config.vocab_size,
               .context_length = runner_.context_length(),
               .weight_bytes = weights.size(),
               .layers = LayersOf(config, cache.layout()),
               .kv_type = std::string(NameOf(cache.layout().type)),
               .block_slots = kBlockSlots,
               .num_groups = cache.layout().num_groups(),
               .num_blocks = cache.usage().total_blocks,
               .block_bytes = cache.layout().block_bytes,
               .kernels = std::string(runner_.kernels().name),
               .num_threads = runner_.threads().num_threads()};
  if (detail_.operators) {
    for (int i = 0; i < kLimitReads; ++i) {
      const double rate =
          static_cast<double>(weights.size()) / ReadSeconds(runner_.threads(), weights);
      run.bytes_per_second = std::max(run.bytes_per_second, rate);
    }
    const ArithmeticPeaks peaks = MeasureArithmeticPeaks(runner_.threads(), runner_.kernels().name);
    run.int8_ops_per_second = peaks.int8_ops_per_second;
    run.f32_ops_per_second = peaks.f32_ops_per_second;
  }
  sink_.Add(std::move(run));
}

void EngineTrace::RequestCame(const RequestState& request) {
  ++num_live_;
  waiting_.insert(request.id);
  const Request& asked = request.request;
  Tell(RequestEvent{.ms = request.submitted_ms,
                    .request = request.id,
                    .name = asked.name.substr(0, kMaxName),
                    .is_pin = request.pin.has_value(),
                    .prompt_tokens = request.result.prompt_tokens,
                    .max_tokens = request.answers.empty() ? std::max(0, asked.max_tokens)
                                                          : request.answers[0].tokens_left(),
                    .num_choices = asked.num_choices});
}

void EngineTrace::BeginStep(const StepPlan& plan, const Owners& owners) {
  in_step_ = true;
  has_computed_ = false;
  detail_ = sink_.detail();
  times_ = {};
  num_passes_ = 0;
  step_.ms = plan.now_ms;
  step_.forward_ms = 0;
  step_.num_tokens = 0;
  step_.operators.clear();
  step_.lines.resize(plan.lines.size());
  for (size_t i = 0; i < plan.lines.size(); ++i) {
    const PlanLine& line = plan.lines[i];
    const auto owner = owners.find(line.sequence);
    step_.lines[i] = {.sequence = line.sequence,
                      .request = owner == owners.end() ? 0 : owner->second.first->id,
                      .action = std::string(NameOf(line.action)),
                      .reason = std::string(NameOf(line.reason)),
                      .is_admission = line.is_admission,
                      .cached_tokens = line.cached_tokens,
                      .first_position = line.first_position,
                      .num_tokens = line.num_tokens,
                      .num_drafts = 0,
                      .sequence_tokens = line.sequence_tokens,
                      .blocks_needed = line.blocks_needed,
                      .blocks_available = line.blocks_available,
                      .other = line.other};
  }
}

void EngineTrace::Admitted(const Batch& batch) {
  for (StepLine& line : step_.lines) {
    if (!line.is_admission) continue;
    line.is_admission = batch.is_running(line.sequence);
    if (line.is_admission) waiting_.erase(line.request);
  }
}

void EngineTrace::Computed(std::span<const StepItem> items, size_t num_logits_rows,
                           double forward_ms) {
  has_computed_ = true;
  step_.forward_ms = forward_ms;
  // Items stand in the order of the lines; lines that came to nothing have none.
  size_t next = 0;
  for (StepLine& line : step_.lines) {
    if (line.num_tokens == 0) continue;
    if (next < items.size() && items[next].sequence == line.sequence) {
      const StepItem& item = items[next++];
      line.first_position = item.first_position;
      line.num_tokens = item.num_tokens - item.num_drafts;
      line.num_drafts = item.num_drafts;
      step_.num_tokens += item.num_tokens;
    } else {
      line.num_tokens = 0;
    }
  }
  if (detail_.operators && num_passes_ == 1 && !items.empty()) AddOperators(items, num_logits_rows);
}

void EngineTrace::AddOperators(std::span<const StepItem> items, size_t num_logits_rows) {
  std::vector<SequenceRows> rows;
  for (const StepItem& item : items) {
    rows.push_back({.first_position = item.first_position, .num_tokens = item.num_tokens});
  }
  // Whose they are makes no difference to what they cost.
  rows[0].num_logits_rows = static_cast<int>(num_logits_rows);
  const OperatorCosts costs =
      CostByOperator(runner_.model().config(), runner_.model().weights(),
                     runner_.cache().layout().type, std::span<const SequenceRows>(rows));
  for (size_t i = 0; i < costs.size(); ++i) {
    step_.operators.push_back({.operators = static_cast<DecoderOperator>(i),
                               .ms = times_.ms[i],
                               .ops = costs[i].ops(),
                               .bytes = costs[i].bytes()});
  }
}

void EngineTrace::TokenDrawn(const RequestState& request, int choice, int position, int32_t token,
                             bool was_drafted, std::span<const TokenLogProb> candidates) {
  TokenEvent event{
      .ms = NowMs(),
      .request = request.id,
      .choice = choice,
      .position = position,
      .token = token,
      .text =
          Printable(runner_.model().tokenizer().TokenBytes(token, /*with_control=*/true), kMaxText),
      .was_drafted = was_drafted};
  event.candidates.reserve(candidates.size());
  for (const TokenLogProb& candidate : candidates) {
    event.candidates.push_back(
        {.token = candidate.token, .log_prob = static_cast<float>(candidate.log_prob)});
  }
  Tell(std::move(event));
}

bool EngineTrace::SaysWhatTheLastSaid() {
  if (has_computed_) {
    last_waits_.reset();
    return false;
  }
  const bool is_same =
      last_waits_ && held_.empty() && std::ranges::equal(step_.lines, *last_waits_, SaysTheSame);
  last_waits_ = step_.lines;
  return is_same;
}

void EngineTrace::EndStep(int64_t steps_computed) {
  in_step_ = false;
  if (!has_computed_) {
    for (StepLine& line : step_.lines) line.num_tokens = 0;
  }
  if (!SaysWhatTheLastSaid()) {
    step_.step = has_computed_ ? steps_computed : 0;
    step_.total_ms = NowMs() - step_.ms;
    step_.num_waiting = static_cast<int>(waiting_.size());
    step_.num_running = static_cast<int>(num_live_) - step_.num_waiting;
    const KvUsage usage = runner_.cache().usage();
    step_.used_blocks = usage.used_blocks;
    step_.cached_blocks = usage.cached_blocks;
    TraceEvent event(std::move(step_));
    sink_.Add(event);
    step_ = std::move(std::get<StepEvent>(event));  // its memory is used again
  }
  for (const auto& [idx, request] : held_ends_) {
    EndEvent& end = std::get<EndEvent>(held_[idx]);
    end.draft_tokens = request->result.draft_tokens;
    end.accepted_draft_tokens = request->result.accepted_draft_tokens;
  }
  held_ends_.clear();
  for (const TraceEvent& event : held_) sink_.Add(event);
  held_.clear();
}

void EngineTrace::RequestEnded(const RequestState& request, FinishReason reason) {
  --num_live_;
  waiting_.erase(request.id);
  const RequestResult& result = request.result;
  const PrefixMiss& miss = result.miss;
  if (in_step_) held_ends_.emplace_back(held_.size(), &request);
  Tell(EndEvent{.ms = request.submitted_ms + result.total_ms,
                .request = request.id,
                .is_pin = request.pin.has_value(),
                .reason = std::string(ReasonOf(result, reason)),
                .error = result.status.ok() ? std::string() : result.status.error().message,
                .prompt_computed = request.has_forked,
                .prompt_tokens = result.prompt_tokens,
                .completion_tokens = result.completion_tokens(),
                .cached_memory = result.cached_by_tier.memory,
                .cached_disk = result.cached_by_tier.disk,
                .cached_remote = result.cached_by_tier.remote,
                .miss = std::string(NameOf(miss.reason)),
                .miss_position = miss.position,
                .miss_text = MissSentence(request, runner_.model().tokenizer()),
                .num_preemptions = result.num_preemptions,
                .draft_tokens = result.draft_tokens,
                .accepted_draft_tokens = result.accepted_draft_tokens,
                .queue_ms = result.queue_ms,
                .tier_wait_ms = result.tier_wait_ms,
                .first_token_ms = result.first_token_ms,
                .decode_ms = result.decode_ms,
                .total_ms = result.total_ms});
}

void EngineTrace::BlockChanged(const BlockNote& note) {
  if (!sink_.detail().blocks) return;  // also between steps
  sink_.Add(BlockEvent{.ms = NowMs(),
                       .change = static_cast<BlockChange>(note.verb),
                       .block = note.block,
                       .other = note.other,
                       .group = note.group,
                       .references = note.references,
                       .findable = note.is_findable,
                       .sequence = note.purpose.sequence,
                       .reason = std::string(note.purpose.reason)});
}

}  // namespace quire
