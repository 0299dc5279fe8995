#include "plan/kv_growth.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int kMaxPoints = 1 << 12;
constexpr int kMaxTokens = 1 << 30;

Status CheckOptions(const GrowthOptions& options) {
  if (options.max_tokens < 0 || options.max_tokens > kMaxTokens) {
    return MakeError(ErrorCode::kInvalidArgument, "curves up to {} tokens; expected 0 to {}",
                     options.max_tokens, kMaxTokens);
  }
  if (options.num_points < 2 || options.num_points > kMaxPoints) {
    return MakeError(ErrorCode::kInvalidArgument, "curves of {} points; expected 2 to {}",
                     options.num_points, kMaxPoints);
  }
  if (options.chunk < 1 || options.window < 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "steps of {} tokens and a window of {}; expected 1 or more, and 0 or more",
                     options.chunk, options.window);
  }
  return {};
}

// Multiples of a block where there are enough of them, so that curves meet the steps' edges.
std::vector<int> TokensOfCurves(int max_tokens, int num_points) {
  std::vector<int> tokens;
  for (int i = 0; i < num_points; ++i) {
    int count = static_cast<int>(int64_t{max_tokens} * i / (num_points - 1));
    if (i + 1 < num_points && max_tokens >= num_points * kBlockSlots) {
      count = count / kBlockSlots * kBlockSlots;
    }
    if (tokens.empty() || count > tokens.back()) tokens.push_back(count);
  }
  return tokens;
}

std::vector<GrowthTerm> TermsOf(const ModelConfig& config, const KvCost& cost) {
  std::vector<GrowthTerm> terms;
  for (int i = 0; i < config.num_layers(); ++i) {
    const LayerConfig& layer = config.layers[i];
    auto term = std::ranges::find_if(terms, [&](const GrowthTerm& other) {
      return other.num_heads == layer.num_heads && other.num_kv_heads == layer.num_kv_heads &&
             other.key_dim == layer.key_dim && other.value_dim == layer.value_dim &&
             other.window == layer.window;
    });
    if (term == terms.end()) {
      term = terms.insert(term, GrowthTerm{.num_heads = layer.num_heads,
                                           .num_kv_heads = layer.num_kv_heads,
                                           .key_dim = layer.key_dim,
                                           .value_dim = layer.value_dim,
                                           .window = layer.window});
    }
    ++term->num_layers;
    term->bytes_per_token += cost.LayerBytes(i, 1);
  }
  return terms;
}

class SeriesMaker {
 public:
  SeriesMaker(KvGrowth& growth) : growth_(growth) {}

  void Add(std::string name, std::string label, const KvCost& cost, bool is_as_if) {
    GrowthSeries& series = Begin(std::move(name), std::move(label), cost, is_as_if);
    for (const int tokens : growth_.tokens) series.bytes.push_back(cost.FormulaBytes(tokens));
  }
  void AddBlocks(const KvCost& cost, int chunk) {
    GrowthSeries& series =
        Begin("blocks", "as this engine reserves it, in whole blocks", cost, false);
    for (const int tokens : growth_.tokens) series.bytes.push_back(cost.BlockBytes(tokens, chunk));
  }
  // The model with its layers changed; left out where that is beyond what can be counted.
  template <typename Change>
  void AddAsIf(std::string name, std::string label, const ModelConfig& config,
               const KvElement& element, const Change& change) {
    ModelConfig changed = config;
    for (LayerConfig& layer : changed.layers) change(layer);
    const auto cost = KvCost::Make(changed, element);
    if (cost.ok()) Add(std::move(name), std::move(label), *cost, true);
  }

 private:
  GrowthSeries& Begin(std::string name, std::string label, const KvCost& cost, bool is_as_if) {
    return growth_.series.emplace_back(GrowthSeries{.name = std::move(name),
                                                    .label = std::move(label),
                                                    .kv_type = std::string(cost.element().name),
                                                    .is_as_if = is_as_if,
                                                    .bytes_per_token = cost.BytesPerToken()});
  }

  KvGrowth& growth_;
};

bool HasWindows(const ModelConfig& config) {
  return std::ranges::any_of(config.layers,
                             [](const LayerConfig& layer) { return layer.window > 0; });
}

void AddSeries(KvGrowth& growth, const ModelConfig& config, const KvCost& cost,
               const GrowthOptions& options) {
  SeriesMaker maker(growth);
  const KvElement& element = cost.element();
  maker.Add("formula", "the model as it is, by the formula", cost, false);
  maker.AddBlocks(cost, options.chunk);
  maker.AddAsIf("multi_head", "as if every query head had keys of its own, no windows", config,
                element, [](LayerConfig& layer) {
                  layer.num_kv_heads = layer.num_heads;
                  layer.window = 0;
                });
  maker.AddAsIf("grouped", "key heads as they are, no windows", config, element,
                [](LayerConfig& layer) { layer.window = 0; });
  maker.AddAsIf("multi_query", "as if all query heads shared one key head, no windows", config,
                element, [](LayerConfig& layer) {
                  layer.num_kv_heads = 1;
                  layer.window = 0;
                });
  if (!HasWindows(config) && options.window > 0) {
    maker.AddAsIf("window",
                  fmt::format("as if every layer kept the last {} tokens", options.window), config,
                  element, [&](LayerConfig& layer) { layer.window = options.window; });
  }
  for (const KvElement& other : kKvElements) {
    if (other.name == element.name) continue;
    const auto typed = KvCost::Make(config, other);
    if (!typed.ok()) continue;
    maker.Add(fmt::format("type_{}", other.name),
              fmt::format("the model as it is, stored as {}{}", other.name,
                          other.planned_only() ? " (planned only)" : ""),
              *typed, other.planned_only());
  }
}

}  // namespace

Result<KvGrowth> MakeKvGrowth(const ModelConfig& config, const KvElement& element,
                              const GrowthOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckOptions(options));
  QUIRE_ASSIGN_OR_RETURN(const KvCost cost, KvCost::Make(config, element));
  const int max_tokens = options.max_tokens > 0 ? options.max_tokens : config.context_length;
  if (max_tokens < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} does not say what context it was made for; say how many tokens",
                     config.name);
  }
  KvGrowth growth{.model = config.name,
                  .kv_type = std::string(element.name),
                  .block_bytes = cost.BytesPerBlock(),
                  .num_groups = cost.layout().num_groups(),
                  .chunk = options.chunk,
                  .bytes_per_token = cost.BytesPerToken(),
                  .terms = TermsOf(config, cost),
                  .tokens = TokensOfCurves(max_tokens, options.num_points)};
  AddSeries(growth, config, cost, options);
  return growth;
}

GrowthPoint MakeGrowthPoint(const KvLayout& layout, int num_tokens, int64_t used_blocks,
                            uint64_t committed_bytes) {
  return {.tokens = num_tokens,
          .used_blocks = used_blocks,
          .expected_blocks = layout.BlocksHeld(num_tokens, num_tokens),
          .used_bytes = static_cast<uint64_t>(used_blocks) * layout.block_bytes,
          .formula_bytes = layout.FormulaBytes(num_tokens),
          .committed_bytes = committed_bytes};
}

}  // namespace quire
