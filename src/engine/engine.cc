#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace quire {

Result<std::unique_ptr<Engine>> Engine::Create(const std::filesystem::path& path,
                                               const EngineOptions& options) {
  if (options.num_threads < 0 || options.num_threads > ThreadPool::kMaxThreads) {
    return MakeError(ErrorCode::kInvalidArgument, "{} threads; expected 1 to {}, or 0 for all",
                     options.num_threads, ThreadPool::kMaxThreads);
  }
  if (options.prefill_chunk < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a prefill chunk of {} tokens; expected 1 or more", options.prefill_chunk);
  }
  const auto start = std::chrono::steady_clock::now();
  const int num_threads = options.num_threads > 0 ? options.num_threads : AvailableProcessors();
  std::unique_ptr<Engine> engine(new Engine(num_threads));
  QUIRE_ASSIGN_OR_RETURN(engine->kernels_, SelectKernels(options.kernels));
  QUIRE_ASSIGN_OR_RETURN(engine->model_, LoadedModel::Load(path, options.load, engine->pool_));
  const ModelConfig& config = engine->model_->config();
  if (options.context_length < 0 || options.context_length > config.context_length) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a context of {} tokens; the model was made for 1 to {}",
                     options.context_length, config.context_length);
  }
  engine->context_length_ =
      options.context_length > 0 ? options.context_length : config.context_length;
  engine->prefill_chunk_ = std::min(options.prefill_chunk, engine->context_length_);

  const auto shapes = engine->model_->kv_shapes();
  const int num_blocks = (engine->context_length_ - 1) / kBlockSlots + 1;
  Result<BlockPool> blocks = BlockPool::Create(KvLayout::Make(shapes, options.kv_type), num_blocks);
  if (!blocks.ok()) {
    return MakeError(blocks.error().code,
                     "no room for the KV cache of a context of {} tokens: {}; --ctx-size makes it "
                     "smaller",
                     engine->context_length_, blocks.error().message);
  }
  engine->blocks_ = std::make_unique<BlockPool>(std::move(blocks).value());
  engine->decoder_ = std::make_unique<Decoder>(config, engine->model_->weights(), *engine->kernels_,
                                               engine->pool_);
  engine->logits_.resize(config.vocab_size);
  engine->load_duration_ = std::chrono::steady_clock::now() - start;
  return engine;
}

Result<StepRecord> Engine::Step(Sequence& sequence) {
  const int gap = sequence.num_tokens() - sequence.num_computed();
  QUIRE_CHECK(gap > 0, "a step without tokens");
  StepRecord record{.first_position = sequence.num_computed(),
                    .num_tokens = std::min(gap, prefill_chunk_)};
  record.gave_logits = record.num_tokens == gap;
  const auto start = std::chrono::steady_clock::now();
  QUIRE_RETURN_IF_ERROR(ComputeRows(sequence, record.num_tokens, record.gave_logits ? 1 : 0,
                                    record.gave_logits ? std::span(logits_) : std::span<float>()));
  record.duration = std::chrono::steady_clock::now() - start;
  return record;
}

Status Engine::ComputeRows(Sequence& sequence, int num_tokens, int num_rows,
                           std::span<float> rows) {
  const int first = sequence.num_computed();
  if (first + num_tokens > context_length_ || !sequence.Reserve(num_tokens)) {
    return MakeError(ErrorCode::kContextLength,
                     "{} tokens do not fit into the context of {} tokens", first + num_tokens,
                     context_length_);
  }
  const std::array<std::span<const int32_t>, 1> tables = {sequence.table().blocks()};
  const std::array<KvSequence, 1> sequences = {KvSequence{
      .first_row = 0, .num_rows = num_tokens, .first_position = first, .block_tables = tables}};
  std::vector<int> wanted(num_rows);
  std::iota(wanted.begin(), wanted.end(), num_tokens - num_rows);
  const ForwardInput input{.tokens = sequence.tokens().subspan(first, num_tokens),
                           .sequences = sequences,
                           .logits_rows = wanted};
  QUIRE_RETURN_IF_ERROR(decoder_->Forward(input, blocks_->view(), rows));
  sequence.Commit(num_tokens);
  return {};
}

}  // namespace quire
