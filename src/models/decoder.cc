#include "models/decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/exact_math.h"
#include "kernels/packing.h"

namespace quire {
namespace {

// Rows that a thread takes at a time where rows are independent: one tile of the matmul kernels.
constexpr int kRowGrain = kMaxTileRows;
// Row blocks whose outputs are one group of the next product's columns.
constexpr int kGroupBlocks = kGroupColumns / kPackRows;
// Of the hidden rows of a feed-forward network, what stays in a core's second-level cache beside
// the weights that stream through it.
constexpr size_t kCachedHiddenBytes = size_t{256} << 10;

// The part of quantised rows that starts at `first_row`, the start of a tile.
QuantizedRows SliceOf(const QuantizedRows& all, int first_row, int num_rows) {
  const size_t row = static_cast<size_t>(first_row);
  const size_t groups = static_cast<size_t>(all.num_cols) / kGroupColumns;
  return {.num_rows = num_rows,
          .num_cols = all.num_cols,
          .quants = all.quants + row * all.num_cols,
          .scales = all.scales + row * groups,
          .scaled_sums = all.scaled_sums + row * groups,
          .negated_sums = all.negated_sums + row * groups * 2};
}

bool AnyQuantized(std::span<const PackedMatrix* const> matrices) {
  return std::ranges::any_of(matrices,
                             [](const PackedMatrix* matrix) { return IsQuantized(matrix->dtype); });
}

// What to do about a value that is too large for the type.
std::string_view WiderTypes(KvType type) {
  switch (type) {
    case KvType::kF16:
    case KvType::kQ8_0:
      return "; --kv-type bf16 or f32 hold larger values";
    case KvType::kBF16:
    case KvType::kF32:
      return "";
  }
  return "";
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const Weights& weights, const KernelSet& kernels,
                 ThreadPool& pool)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      pool_(pool),
      workspace_(config, pool.num_threads()) {
  for (const RopeConfig& rope : config.ropes) rope_frequencies_.push_back(rope.Frequencies());
}

Status Decoder::Forward(const ForwardInput& input, const PagedKvView& kv, std::span<float> logits,
                        std::span<float> hidden) {
  clock_ = OperatorClock(input.times);
  num_rows_ = static_cast<int>(input.tokens.size());
  QUIRE_CHECK(num_rows_ > 0 && logits.size() == input.logits_rows.size() * config_.vocab_size);
  QUIRE_CHECK(hidden.size() == input.hidden_rows.size() * config_.d_model);
  QUIRE_RETURN_IF_ERROR(workspace_.Reserve(num_rows_));
  PlaceRows(input);
  Embed(input);
  clock_.Charge(DecoderOperator::kEmbed);
  PrepareRope();
  clock_.Charge(DecoderOperator::kStoreKv);
  for (layer_idx_ = 0; layer_idx_ < config_.num_layers(); ++layer_idx_) {
    QUIRE_RETURN_IF_ERROR(AttentionHalf(layer_idx_, input, kv));
    QUIRE_RETURN_IF_ERROR(FeedForwardHalf(layer_idx_));
  }
  QUIRE_RETURN_IF_ERROR(OutputHidden(input, hidden));
  clock_.Charge(DecoderOperator::kNorm);
  return OutputLogits(input, logits);
}

void Decoder::PlaceRows(const ForwardInput& input) {
  rows_.resize(num_rows_);
  int next_row = 0;
  for (size_t i = 0; i < input.sequences.size(); ++i) {
    const KvSequence& sequence = input.sequences[i];
    QUIRE_CHECK(sequence.first_row == next_row && sequence.num_rows <= num_rows_ - next_row,
                "rows {} + {} of {} do not follow row {}", sequence.first_row, sequence.num_rows,
                num_rows_, next_row);
    for (int row = 0; row < sequence.num_rows; ++row) {
      rows_[next_row++] = {static_cast<int>(i), sequence.first_position + row};
    }
  }
  QUIRE_CHECK(next_row == num_rows_, "{} of {} rows belong to a sequence", next_row, num_rows_);
}

void Decoder::Embed(const ForwardInput& input) {
  const int d_model = config_.d_model;
  pool_.ParallelFor(num_rows_, kRowGrain, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      float* x = workspace_.x + row * d_model;
      UnpackRow(weights_.token_embedding, input.tokens[row], x);
      if (config_.embedding_scale != 1.0f) kernels_.scale(x, config_.embedding_scale, d_model);
      if (config_.learned_positions) {
        float* position_row = workspace_.normed + row * d_model;
        UnpackRow(weights_.position_embedding, rows_[row].position, position_row);
        kernels_.add(x, position_row, d_model);
      }
    }
  });
}

void Decoder::PrepareRope() {
  pool_.ParallelFor(num_rows_, kRowGrain, [&](size_t begin, size_t end, int) {
    for (size_t rope_idx = 0; rope_idx < rope_frequencies_.size(); ++rope_idx) {
      const std::vector<double>& frequencies = rope_frequencies_[rope_idx];
      for (size_t row = begin; row < end; ++row) {
        float* cos = workspace_.rope_cos[rope_idx] + row * frequencies.size();
        float* sin = workspace_.rope_sin[rope_idx] + row * frequencies.size();
        const double position = rows_[row].position;
        for (size_t pair = 0; pair < frequencies.size(); ++pair) {
          const exact::SinCos turn = exact::SinCosOf(position * frequencies[pair]);
          cos[pair] = static_cast<float>(turn.cos);
          sin[pair] = static_cast<float>(turn.sin);
        }
      }
    }
  });
}

Status Decoder::AttentionHalf(int layer_idx, const ForwardInput& input, const PagedKvView& kv) {
  const LayerConfig& layer = config_.layers[layer_idx];
  const LayerWeights& weights = weights_.layers[layer_idx];
  const Norm norm{weights.attention_norm, weights.attention_norm_bias};
  const std::array<const PackedMatrix*, 3> consumers = {&weights.query, &weights.key,
                                                        &weights.value};
  QUIRE_RETURN_IF_ERROR(PrepareInput(norm, consumers, "the input of attention"));
  clock_.Charge(DecoderOperator::kNorm);
  const bool before = config_.norm_placement != NormPlacement::kAfterResidual;
  const std::array<Product, 3> products = {
      Product{&weights.query, weights.query_bias, workspace_.queries},
      Product{&weights.key, weights.key_bias, workspace_.keys},
      Product{&weights.value, weights.value_bias, workspace_.values}};
  Multiply(products,
           {.rows = before ? workspace_.normed : workspace_.x, .quantized = &workspace_.quantized});
  clock_.Charge(DecoderOperator::kProject);

  QUIRE_RETURN_IF_ERROR(StoreKeysAndValues(layer_idx, input, kv));
  clock_.Charge(DecoderOperator::kStoreKv);
  const int attended_dim = layer.num_heads * layer.value_dim;
  const float scale = config_.attention_scale != 0.0f
                          ? config_.attention_scale
                          : 1.0f / std::sqrt(static_cast<float>(layer.key_dim));
  attention_.Run(kernels_, pool_,
                 {.queries = workspace_.queries,
                  .query_stride = static_cast<size_t>(layer.num_heads) * layer.key_dim,
                  .out = workspace_.attended,
                  .out_stride = static_cast<size_t>(attended_dim),
                  .num_heads = layer.num_heads,
                  .scale = scale,
                  .kv = &kv,
                  .layer = layer_idx,
                  .window = layer.window,
                  .sequences = input.sequences});
  clock_.Charge(DecoderOperator::kAttend);

  QUIRE_RETURN_IF_ERROR(Quantize(workspace_.attended, attended_dim, weights.attention_output,
                                 "the output of attention"));
  clock_.Charge(DecoderOperator::kNorm);
  const std::array<Product, 1> output = {
      Product{&weights.attention_output, weights.attention_output_bias, workspace_.delta}};
  Multiply(output, {.rows = workspace_.attended, .quantized = &workspace_.quantized});
  clock_.Charge(DecoderOperator::kProject);
  const Status added = AddToResidual(norm, weights.attention_post_norm, "the output of attention");
  clock_.Charge(DecoderOperator::kNorm);
  return added;
}

Status Decoder::FeedForwardHalf(int layer_idx) {
  const LayerWeights& weights = weights_.layers[layer_idx];
  const Norm norm{weights.ffn_norm, weights.ffn_norm_bias};
  const bool before = config_.norm_placement != NormPlacement::kAfterResidual;
  const std::array<const PackedMatrix*, 2> consumers = {
      &weights.ffn_up, config_.gated_ffn ? &weights.ffn_gate : &weights.ffn_up};
  QUIRE_RETURN_IF_ERROR(PrepareInput(norm, consumers, "the input of the feed-forward network"));
  clock_.Charge(DecoderOperator::kNorm);
  QUIRE_RETURN_IF_ERROR(ComputeHidden(weights, {.rows = before ? workspace_.normed : workspace_.x,
                                                .quantized = &workspace_.quantized}));
  const std::array<Product, 1> down = {
      Product{&weights.ffn_down, weights.ffn_down_bias, workspace_.delta}};
  Multiply(down, {.rows = HiddenRows(), .quantized = &workspace_.quantized_hidden});
  clock_.Charge(DecoderOperator::kFeedForward);
  const Status added =
      AddToResidual(norm, weights.ffn_post_norm, "the output of the feed-forward network");
  clock_.Charge(DecoderOperator::kNorm);
  return added;
}

float* Decoder::HiddenRows() const { return config_.gated_ffn ? workspace_.gate : workspace_.up; }

// A thread takes columns of the hidden rows from the products to the quantised values that the next
// product reads, while they are in its cache and without a barrier in between.
Status Decoder::ComputeHidden(const LayerWeights& weights, const Input& input) {
  const int ffn_dim = weights.ffn_up.num_rows;
  const MatmulJob up = JobOf({&weights.ffn_up, weights.ffn_up_bias, workspace_.up}, input);
  const MatmulJob gate =
      config_.gated_ffn ? JobOf({&weights.ffn_gate, nullptr, workspace_.gate}, input) : MatmulJob{};
  const bool quantize = IsQuantized(weights.ffn_down.dtype);
  QuantizedRows& quantized = workspace_.quantized_hidden;
  quantized.num_rows = num_rows_;
  quantized.num_cols = ffn_dim;
  const size_t num_groups = (static_cast<size_t>(ffn_dim) + kGroupColumns - 1) / kGroupColumns;
  const size_t group_bytes = static_cast<size_t>(num_rows_) * kGroupColumns * 2 * sizeof(float);
  const size_t most = std::max<size_t>(1, kCachedHiddenBytes / group_bytes);
  std::atomic<bool> finite{true};
  pool_.ParallelForShrinking(num_groups, 1, [&](size_t begin, size_t end, int thread_idx) {
    for (size_t group = begin; group < end; group += most) {
      const int from = static_cast<int>(group);
      const int to = static_cast<int>(std::min(end, group + most));
      const int last_block = std::min(to * kGroupBlocks, weights.ffn_up.num_row_blocks());
      MultiplyBlocks(up, weights.ffn_up_bias, from * kGroupBlocks, last_block, thread_idx);
      if (config_.gated_ffn) {
        MultiplyBlocks(gate, nullptr, from * kGroupBlocks, last_block, thread_idx);
      }
      Activate(from * kGroupColumns, std::min(to * kGroupColumns, ffn_dim), ffn_dim);
      if (quantize && !kernels_.quantize_groups(HiddenRows(), ffn_dim, from, to, quantized)) {
        finite = false;
      }
    }
  });
  if (!finite) return NotFinite("the feed-forward network");
  return {};
}

// Columns [begin, end) of the hidden rows.
void Decoder::Activate(int begin, int end, int ffn_dim) {
  for (int row = 0; row < num_rows_; ++row) {
    const size_t at = static_cast<size_t>(row) * ffn_dim + begin;
    float* hidden = HiddenRows() + at;
    const float* up = workspace_.up + at;
    switch (config_.activation) {
      case Activation::kSilu:
        kernels_.silu_mul(hidden, up, end - begin);
        break;
      case Activation::kGelu:
        kernels_.gelu_mul(hidden, up, end - begin);
        break;
      case Activation::kRelu:
        kernels_.relu(hidden, end - begin);
        break;
    }
  }
}

bool Decoder::FinishRow(int row, float* out) const {
  const float* x = workspace_.x + static_cast<size_t>(row) * config_.d_model;
  if (config_.final_norm) {
    return ApplyNorm({weights_.output_norm, weights_.output_norm_bias}, x, out);
  }
  std::memcpy(out, x, config_.d_model * sizeof(float));
  return true;
}

Status Decoder::OutputHidden(const ForwardInput& input, std::span<float> hidden) {
  if (hidden.empty()) return {};
  std::atomic<bool> finite{true};
  pool_.ParallelFor(input.hidden_rows.size(), kRowGrain, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      if (!FinishRow(input.hidden_rows[i], hidden.data() + i * config_.d_model)) finite = false;
    }
  });
  if (!finite) return NotFinite("the last norm");
  return {};
}

Status Decoder::OutputLogits(const ForwardInput& input, std::span<float> logits) {
  const int d_model = config_.d_model;
  const int num_wanted = static_cast<int>(input.logits_rows.size());
  if (num_wanted == 0) return {};
  // The wanted rows move to the front: rows are ascending, so none is overwritten before its turn.
  for (int i = 0; i < num_wanted; ++i) {
    float* out = workspace_.normed + static_cast<size_t>(i) * d_model;
    if (!FinishRow(input.logits_rows[i], out)) return NotFinite("the last norm");
  }
  num_rows_ = num_wanted;
  QUIRE_RETURN_IF_ERROR(
      Quantize(workspace_.normed, d_model, weights_.output, "the input of the output layer"));
  clock_.Charge(DecoderOperator::kNorm);
  const std::array<Product, 1> products = {
      Product{&weights_.output, weights_.output_bias, logits.data()}};
  Multiply(products, {.rows = workspace_.normed, .quantized = &workspace_.quantized});
  clock_.Charge(DecoderOperator::kOutput);
  return {};
}

Status Decoder::PrepareInput(const Norm& norm, std::span<const PackedMatrix* const> consumers,
                             std::string_view place) {
  const int d_model = config_.d_model;
  const bool before = config_.norm_placement != NormPlacement::kAfterResidual;
  const bool quantize = AnyQuantized(consumers);
  const QuantizedRows all = [&] {
    QuantizedRows rows = workspace_.quantized;
    rows.num_rows = num_rows_;
    rows.num_cols = d_model;
    return rows;
  }();
  std::atomic<bool> finite{true};
  pool_.ParallelFor(num_rows_, kRowGrain, [&](size_t begin, size_t end, int) {
    const float* rows = workspace_.x + begin * d_model;
    if (before) {
      float* normed = workspace_.normed + begin * d_model;
      for (size_t i = 0; i < end - begin; ++i) {
        if (!ApplyNorm(norm, rows + i * d_model, normed + i * d_model)) finite = false;
      }
      rows = normed;
    }
    if (quantize) {
      QuantizedRows slice = SliceOf(all, static_cast<int>(begin), static_cast<int>(end - begin));
      if (!kernels_.quantize_rows(rows, d_model, &slice)) finite = false;
    }
  });
  workspace_.quantized = all;
  if (!finite) return NotFinite(place);
  return {};
}

Status Decoder::Quantize(const float* rows, int cols, const PackedMatrix& consumer,
                         std::string_view place) {
  if (!IsQuantized(consumer.dtype)) return {};
  QuantizedRows all = workspace_.quantized;
  all.num_rows = num_rows_;
  all.num_cols = cols;
  std::atomic<bool> finite{true};
  pool_.ParallelFor(num_rows_, kRowGrain, [&](size_t begin, size_t end, int) {
    QuantizedRows slice = SliceOf(all, static_cast<int>(begin), static_cast<int>(end - begin));
    if (!kernels_.quantize_rows(rows + begin * cols, cols, &slice)) finite = false;
  });
  workspace_.quantized = all;
  if (!finite) return NotFinite(place);
  return {};
}

Status Decoder::AddToResidual(const Norm& after, const float* post_norm, std::string_view place) {
  const int d_model = config_.d_model;
  std::atomic<bool> finite{true};
  pool_.ParallelFor(num_rows_, kRowGrain, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      float* x = workspace_.x + row * d_model;
      float* delta = workspace_.delta + row * d_model;
      if (post_norm != nullptr && !ApplyNorm({post_norm, nullptr}, delta, delta)) finite = false;
      kernels_.add(x, delta, d_model);
      if (!kernels_.all_finite(x, d_model)) finite = false;
      if (config_.norm_placement == NormPlacement::kAfterResidual && !ApplyNorm(after, x, x)) {
        finite = false;
      }
    }
  });
  if (!finite) return NotFinite(place);
  return {};
}

Status Decoder::StoreKeysAndValues(int layer_idx, const ForwardInput& input,
                                   const PagedKvView& kv) {
  const LayerConfig& layer = config_.layers[layer_idx];
  const LayerWeights& weights = weights_.layers[layer_idx];
  const KvLayer& place = kv.layers[layer_idx];
  const size_t key_head_bytes = KvBytes(kv.type, static_cast<size_t>(layer.key_dim) * kBlockSlots);
  const size_t value_head_bytes =
      KvBytes(kv.type, static_cast<size_t>(layer.value_dim) * kBlockSlots);
  std::atomic<bool> finite{true};
  std::atomic<bool> finite_queries{true};

  const auto turn = [&](float* heads, int num_heads, const float* head_norm, size_t row) {
    if (head_norm != nullptr) {
      for (int head = 0; head < num_heads; ++head) {
        float* x = heads + static_cast<size_t>(head) * layer.key_dim;
        if (!kernels_.rms_norm(x, head_norm, config_.norm_epsilon, layer.key_dim, x)) {
          finite = false;
        }
      }
    }
    if (config_.learned_positions) return;
    const int rotary_dim = config_.ropes[layer.rope].rotary_dim;
    const size_t offset = row * (rotary_dim / 2);
    kernels_.rope(
        heads, num_heads, layer.key_dim, rotary_dim, config_.ropes[layer.rope].style,
        {workspace_.rope_cos[layer.rope] + offset, workspace_.rope_sin[layer.rope] + offset});
  };

  pool_.ParallelFor(num_rows_, kRowGrain, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const int position = rows_[row].position;
      const std::span<const int32_t> blocks =
          input.sequences[rows_[row].sequence_idx].block_tables[place.group];
      float* keys = workspace_.keys + row * layer.num_kv_heads * layer.key_dim;
      const float* values = workspace_.values + row * layer.num_kv_heads * layer.value_dim;
      float* queries = workspace_.queries + row * layer.num_heads * layer.key_dim;
      turn(queries, layer.num_heads, weights.query_norm, row);
      // A score that is not a number would pass for a large weight.
      if (!kernels_.all_finite(queries, layer.num_heads * layer.key_dim)) finite_queries = false;
      turn(keys, layer.num_kv_heads, weights.key_norm, row);
      std::byte* block = kv.Block(blocks[position / kBlockSlots]);
      const int slot = position % kBlockSlots;
      for (int head = 0; head < layer.num_kv_heads; ++head) {
        const bool has_key =
            kernels_.store_key(keys + static_cast<size_t>(head) * layer.key_dim, layer.key_dim,
                               kv.type, slot, block + place.key_offset + head * key_head_bytes);
        const bool has_value = kernels_.store_value(
            values + static_cast<size_t>(head) * layer.value_dim, layer.value_dim, kv.type, slot,
            block + place.value_offset + head * value_head_bytes);
        if (!has_key || !has_value) finite = false;
      }
    }
  });
  if (!finite_queries) return NotFinite("the queries");
  if (finite) return {};
  return MakeError(ErrorCode::kNumeric,
                   "layer {}: a key or value is not a number or too large for KV type {}{}",
                   layer_idx, NameOf(kv.type), WiderTypes(kv.type));
}

void Decoder::Multiply(std::span<const Product> products, const Input& input) {
  std::array<MatmulJob, 3> jobs;
  std::array<size_t, 4> first_block{};  // of each product in the joint count of row blocks
  QUIRE_CHECK(products.size() <= jobs.size());
  for (size_t i = 0; i < products.size(); ++i) {
    jobs[i] = JobOf(products[i], input);
    first_block[i + 1] = first_block[i] + products[i].weights->num_row_blocks();
  }
  pool_.ParallelForShrinking(
      first_block[products.size()], 1, [&](size_t begin, size_t end, int thread_idx) {
        for (size_t i = 0; i < products.size(); ++i) {
          const size_t from = std::max(begin, first_block[i]);
          const size_t to = std::min(end, first_block[i + 1]);
          if (from >= to) continue;
          MultiplyBlocks(jobs[i], products[i].bias, static_cast<int>(from - first_block[i]),
                         static_cast<int>(to - first_block[i]), thread_idx);
        }
      });
}

MatmulJob Decoder::JobOf(const Product& product, const Input& input) const {
  const PackedMatrix& matrix = *product.weights;
  return {.weights = &matrix,
          .quantized = input.quantized,
          .rows = input.rows,
          .row_stride = static_cast<size_t>(matrix.num_cols),
          .num_rows = num_rows_,
          .out = product.out,
          .out_stride = static_cast<size_t>(matrix.num_rows)};
}

void Decoder::MultiplyBlocks(MatmulJob job, const float* bias, int begin, int end, int thread_idx) {
  job.scratch = workspace_.matmul_scratch[thread_idx];
  kernels_.matmul(job, begin, end);
  if (bias == nullptr) return;
  const int column = begin * kPackRows;
  const int num_columns = std::min(end * kPackRows, job.weights->num_rows) - column;
  for (int row = 0; row < job.num_rows; ++row) {
    kernels_.add(job.out + row * job.out_stride + column, bias + column, num_columns);
  }
}

bool Decoder::ApplyNorm(const Norm& norm, const float* x, float* out) const {
  if (config_.norm == NormKind::kRms) {
    return kernels_.rms_norm(x, norm.weight, config_.norm_epsilon, config_.d_model, out);
  }
  return kernels_.layer_norm(x, norm.weight, norm.bias, config_.norm_epsilon, config_.d_model, out);
}

Error Decoder::NotFinite(std::string_view place) const {
  if (layer_idx_ >= config_.num_layers()) {
    return MakeError(ErrorCode::kNumeric, "a value is not a number or infinite at {}", place);
  }
  return MakeError(ErrorCode::kNumeric, "layer {}: a value is not a number or infinite at {}",
                   layer_idx_, place);
}

}  // namespace quire
