#include "engine/equality_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

namespace quire::testing {
namespace {

constexpr int kStems = 3;

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  // low..high
  int Between(int low, int high) {
    return low + static_cast<int>(random_() % (static_cast<uint64_t>(high - low) + 1));
  }
  bool OneIn(int count) { return Between(1, count) == 1; }
  template <typename T>
  const T& Pick(const std::vector<T>& values) {
    return values[static_cast<size_t>(Between(0, static_cast<int>(values.size()) - 1))];
  }
  std::vector<int32_t> Tokens(int count, int vocab_size) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = Between(0, vocab_size - 1);
    return tokens;
  }

 private:
  std::mt19937_64 random_;
};

// Nothing where the heads cannot be stored in this type.
const std::optional<KvLayout>& LayoutOf(const LoadModel& model, KvType type) {
  static std::map<std::pair<std::string, KvType>, std::optional<KvLayout>> known;
  const auto [found, is_new] = known.try_emplace({model.path.string(), type});
  if (is_new) {
    auto runner =
        ModelRunner::Create(model.path, {.num_threads = 1, .context_length = 16, .kv_type = type});
    if (runner.ok()) found->second = (*runner)->cache().layout();
  }
  return found->second;
}

// A length that is often next to a block's end.
int Length(Dice& dice, int most) {
  const int length = dice.Between(1, most);
  if (!dice.OneIn(3) || length < kBlockSlots) return length;
  return std::min(most, length / kBlockSlots * kBlockSlots + dice.Between(-1, 1));
}

void DrawSampling(Dice& dice, Request& request, int vocab_size) {
  SamplingParameters& sampling = request.sampling;
  sampling.seed = static_cast<uint64_t>(dice.Between(0, 1 << 30));
  sampling.temperature = dice.OneIn(2) ? 0 : 1;
  if (!dice.OneIn(5)) sampling.logprobs = dice.Between(0, 4);
  if (dice.OneIn(6)) sampling.repetition_penalty = 1.2f;
  if (dice.OneIn(8)) sampling.presence_penalty = .5f;
  if (dice.OneIn(8)) sampling.top_k = 20;
  if (dice.OneIn(8)) sampling.top_p = .9f;
  if (vocab_size < 200) return;  // what follows might leave no token of a small vocabulary
  if (dice.OneIn(8)) sampling.allowed_token_ids = dice.Tokens(100, vocab_size);
  if (dice.OneIn(8)) {
    for (int i = 0; i < 10; ++i) {
      sampling.bad_words.push_back(dice.Tokens(dice.Between(1, 3), vocab_size));
    }
  }
}

void DrawParallel(Dice& dice, Request& request) {
  switch (dice.Between(1, 10)) {
    case 1:
    case 2:
    case 3:
      request.num_choices = dice.Between(2, 4);
      request.sampling.temperature = 1;
      break;
    case 4:
      request.beams = {.width = dice.Between(2, 4), .length_penalty = dice.Between(0, 4) / 2.0};
      request.num_choices = dice.Between(1, request.beams.width);
      request.sampling.allowed_token_ids.clear();
      request.sampling.bad_words.clear();
      request.sampling.repetition_penalty = 1;
      request.sampling.presence_penalty = 0;
      break;
    case 5:
      request.embedding = dice.OneIn(2) ? Pooling::kMean : Pooling::kLast;
      break;
    default:
      break;
  }
}

Request DrawRequest(Dice& dice, const LoadLimits& limits, int vocab_size) {
  Request request{.max_tokens = dice.Between(1, limits.max_tokens)};
  DrawSampling(dice, request, vocab_size);
  DrawParallel(dice, request);
  if (dice.OneIn(8)) request.max_tokens = -1;
  if (dice.OneIn(4)) request.ignore_end_of_text = true;
  if (dice.OneIn(6)) request.stop_token_ids = dice.Tokens(20, vocab_size);
  if (dice.OneIn(6) && request.max_tokens > 4) request.min_tokens = 4;
  if (dice.OneIn(4)) request.include_stop = true;
  if (dice.OneIn(4)) request.show_control_tokens = true;
  if (dice.OneIn(10) && !request.embedding) request.prompt_logprobs = dice.Between(0, 3);
  if (dice.OneIn(6)) request.cache_salt = "another";
  if (dice.OneIn(4)) request.priority = dice.Between(-1, 1);
  if (dice.OneIn(30)) {
    request.use_kv_cache = false;
    request.max_tokens = std::min(std::max(request.max_tokens, 4), 6);
    request.min_tokens = 0;
  }
  return request;
}

EngineOptions DrawOptions(Dice& dice, const LoadModel& model, const LoadLimits& limits,
                          LoadLimits* drawn) {
  std::vector<std::string> kernels;
  for (const KernelSet* set : AvailableKernels()) {
    if (set->name != "reference") kernels.emplace_back(set->name);
  }
  // The scalar program takes its time.
  if (kernels.empty() || (limits.with_reference_kernels && dice.OneIn(8))) kernels = {"reference"};
  std::vector<KvType> types{KvType::kF16, KvType::kF16};
  if (limits.with_every_kv_type) {
    for (const KvType type : {KvType::kBF16, KvType::kF32, KvType::kQ8_0}) {
      if (LayoutOf(model, type)) types.push_back(type);
    }
  }
  EngineOptions options{
      .runner = {.kernels = dice.Pick(kernels),
                 .num_threads = dice.Pick(limits.threads),
                 .context_length = dice.Between(limits.context_length / 2, limits.context_length),
                 .kv_type = dice.Pick(types)},
      .scheduler = {.max_sequences = dice.Between(1, 8),
                    .max_batched_tokens = dice.Between(1, limits.max_batched_tokens)}};
  // Chunks beside decodes as small and as large as can be, or as the clock says.
  options.scheduler.target_step_ms = dice.Pick(std::vector<double>{1e-9, 1e9, 1e9, 0});
  if (dice.OneIn(3)) options.scheduler.admission_reserve = dice.Between(0, 2);
  drawn->context_length = options.runner.context_length;
  const KvLayout& layout = *LayoutOf(model, options.runner.kv_type);
  const int64_t least =
      layout.PeakBlocks(drawn->context_length, options.scheduler.max_batched_tokens);
  const int64_t blocks =
      least + dice.Between(0, static_cast<int>(dice.OneIn(4) ? 4 * least : least));
  options.runner.kv_bytes = static_cast<uint64_t>(blocks) * layout.block_bytes;
  return options;
}

// Of two loads in three: drafts as many as there is room for, mostly.
void DrawSpeculation(Dice& dice, SpeculationOptions& speculation) {
  if (dice.OneIn(3)) return;
  speculation.type = dice.OneIn(2) ? SpeculationType::kNgram : SpeculationType::kNgramCache;
  speculation.max_drafts = dice.Between(1, 20);
  speculation.drafts_always = !dice.OneIn(4);
}

}  // namespace

std::string Describe(const Load& load) {
  const RunnerOptions& runner = load.options.runner;
  const SpeculationOptions& drafts = load.options.speculation;
  return fmt::format(
      "seed {}: {}, {}, {}, {} threads, context {}, pool of {} bytes, {} tokens a step of {} ms, "
      "{} "
      "sequences, {} requests, {} drafts at most{}",
      load.seed, load.model.name, NameOf(runner.kv_type), runner.kernels, runner.num_threads,
      runner.context_length, runner.kv_bytes, load.options.scheduler.max_batched_tokens,
      load.options.scheduler.target_step_ms, load.options.scheduler.max_sequences,
      load.requests.size(), drafts.type == SpeculationType::kNone ? 0 : drafts.max_drafts,
      drafts.drafts_always ? ", always" : "");
}

Load MakeLoad(uint64_t seed, const LoadModel& model, const LoadLimits& limits) {
  Dice dice(seed);
  LoadLimits drawn = limits;
  Load load{.seed = seed, .model = model, .has_fresh_engines = limits.has_fresh_engines};
  load.options = DrawOptions(dice, model, limits, &drawn);
  load.solo_options = {
      .runner = {.num_threads = limits.threads[0],
                 .context_length = drawn.context_length,
                 .kv_type = load.options.runner.kv_type,
                 .num_sequences = 10},
      .scheduler = {.max_batched_tokens = dice.Pick(std::vector<int>{5, 16, 33, 512})}};

  const int longest = drawn.context_length - 2;
  std::vector<std::vector<int32_t>> stems;
  for (int i = 0; i < kStems; ++i) {
    stems.push_back(dice.Tokens(Length(dice, longest), model.vocab_size));
  }
  const int num_requests = dice.Between(limits.num_requests / 2, limits.num_requests);
  int step = 0;
  for (int i = 0; i < num_requests; ++i) {
    LoadRequest wanted{.request = DrawRequest(dice, limits, model.vocab_size)};
    if (!dice.OneIn(3)) step += dice.Between(0, 12);
    wanted.arrival_step = step;
    if (dice.OneIn(5)) wanted.abort_after = dice.Between(0, 30);
    std::vector<int32_t>& prompt = wanted.request.prompt;
    const int other = dice.Between(0, std::max(0, i - 1));
    const bool has_other = i > 0 && load.requests[static_cast<size_t>(other)].follows < 0;
    if (has_other && dice.OneIn(5)) {
      prompt = load.requests[static_cast<size_t>(other)].request.prompt;  // the same again
    } else if (has_other && load.requests[static_cast<size_t>(other)].abort_after < 0 &&
               dice.OneIn(3)) {
      wanted.follows = other;  // a chat's next turn
      prompt = dice.Tokens(dice.Between(1, 20), model.vocab_size);
      wanted.request.cache_salt = load.requests[static_cast<size_t>(other)].request.cache_salt;
    } else {
      const std::vector<int32_t>& stem = dice.Pick(stems);
      prompt.assign(stem.begin(), stem.begin() + Length(dice, static_cast<int>(stem.size())));
      const int room = longest - static_cast<int>(prompt.size());
      if (room > 0 && !dice.OneIn(3)) {
        const std::vector<int32_t> tail =
            dice.Tokens(dice.Between(1, std::min(room, 40)), model.vocab_size);
        prompt.insert(prompt.end(), tail.begin(), tail.end());
      }
    }
    load.requests.push_back(std::move(wanted));
  }
  DrawSpeculation(dice, load.options.speculation);
  return load;
}

}  // namespace quire::testing
