#include "server/routes/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "plan/byte_size.h"
#include "plan/concurrency.h"
#include "plan/presets.h"
#include "server/openai/json_members.h"
#include "server/routes/quire_routes.h"

namespace quire {
namespace {

// Names that are echoed are cut to this: an error is no way to send a long text back.
constexpr size_t kMostEchoed = 100;

struct PlanQuestion {
  std::string model{};
  bool is_preset = false;
  ModelShape shape{};
  PlanOptions options{};
  std::optional<uint64_t> memory{};     // in all
  std::optional<uint64_t> kv_memory{};  // for keys and values
};

Error Refuse(std::string_view value, std::string_view expected) {
  return MakeError(ErrorCode::kInvalidArgument, "\"{}\"; expected {}",
                   RepairUtf8(value.substr(0, kMostEchoed)), expected);
}

Result<int> ReadInt(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    return Refuse(text, "a whole number of 1 or more");
  }
  return value;
}

Status ReadPreset(const std::string& name, PlanQuestion& question) {
  auto preset = FindPreset(name);
  if (!preset) return Refuse(name, fmt::format("one of {}", fmt::join(PresetNames(), ", ")));
  question.model = name;
  question.is_preset = true;
  question.shape = *std::move(preset);
  return {};
}

Status ReadField(std::string_view name, const std::string& value, PlanQuestion& question) {
  const auto read_size = [&](std::optional<uint64_t>& size) -> Status {
    QUIRE_ASSIGN_OR_RETURN(size, ParseByteSize(value));
    return {};
  };
  const auto read_int = [&](int& number) -> Status {
    QUIRE_ASSIGN_OR_RETURN(number, ReadInt(value));
    return {};
  };
  PlanOptions& options = question.options;
  if (name == "preset") return ReadPreset(value, question);
  if (name == "context") return read_int(options.context_tokens);
  if (name == "sequences") return read_int(options.num_sequences);
  if (name == "prefill_chunk") return read_int(options.prefill_chunk);
  if (name == "memory") return read_size(question.memory);
  if (name == "kv_size") return read_size(question.kv_memory);
  if (name == "overhead") return read_size(options.overhead_bytes);
  if (name == "kv_type") {
    const auto element = FindKvElement(value);
    if (!element) return Refuse(value, "f16, bf16, f32, q8_0, fp8 or q4_0");
    options.kv_element = *element;
    return {};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "no such parameter; known are preset, context, sequences, prefill_chunk, "
                   "kv_type, memory, kv_size and overhead");
}

std::optional<ApiError> ReadQuestion(const QueryFields& query, PlanQuestion& question) {
  std::set<std::string_view> seen;
  for (const auto& [name, value] : query) {
    const Status status = seen.insert(name).second ? ReadField(name, value, question)
                                                   : Status(Refuse(value, "it once"));
    if (status.ok()) continue;
    const std::string shown = RepairUtf8(std::string_view(name).substr(0, kMostEchoed));
    return ApiErrorOf(
        MakeError(ErrorCode::kInvalidArgument, "{}: {}", shown, status.error().message), shown);
  }
  // A context is that of the model asked for, and one sequence of another model is the least.
  if (question.is_preset) {
    if (!seen.contains("context")) question.options.context_tokens = 0;
    if (!seen.contains("sequences")) question.options.num_sequences = 1;
  }
  return std::nullopt;
}

void WriteKv(const PlanQuestion& question, const MemoryPlan& plan, const KvCost& cost,
             JsonWriter& json) {
  json.Key("kv");
  json.BeginObject();
  TextMember("type", question.options.kv_element.name, json);
  BoolMember("planned_only", question.options.kv_element.planned_only(), json);
  BytesMember("bytes_per_token", plan.kv_bytes_per_token, json);
  IntMember("block_tokens", kBlockSlots, json);
  BytesMember("block_bytes", plan.kv_bytes_per_block, json);
  IntMember("groups", cost.layout().num_groups(), json);
  IntMember("blocks_per_sequence", plan.kv_blocks_per_sequence, json);
  IntMember("blocks", plan.kv_blocks, json);
  BytesMember("bytes", plan.kv_bytes, json);
  BytesMember("formula_bytes", plan.kv_formula_bytes, json);
  BytesMember("sequence_bytes", plan.kv_sequence_bytes, json);
  BytesMember("sequence_formula_bytes", plan.kv_sequence_formula_bytes, json);
  json.EndObject();
}

void WriteMemory(const MemoryPlan& plan, JsonWriter& json) {
  json.Key("memory");
  json.BeginObject();
  for (const MemoryLine& line : plan.Lines()) {
    BytesMember(fmt::format("{}_bytes", line.name), line.bytes, json);
  }
  BytesMember("total_bytes", plan.total_bytes(), json);
  json.EndObject();
}

Status WriteFits(const PlanQuestion& question, JsonWriter& json) {
  json.Key("fits");
  if (!question.memory) {
    json.Null();
    return {};
  }
  const uint64_t memory = *question.memory;
  QUIRE_ASSIGN_OR_RETURN(const int context,
                         LargestContext(question.shape, question.options, memory));
  QUIRE_ASSIGN_OR_RETURN(const int sequences,
                         SequencesThatFit(question.shape, question.options, memory));
  QUIRE_ASSIGN_OR_RETURN(const auto types, FitByKvType(question.shape, question.options, memory));
  json.BeginObject();
  BytesMember("memory_bytes", memory, json);
  IntMember("largest_context", context, json);
  IntMember("sequences", sequences, json);
  json.Key("kv_types");
  json.BeginArray();
  for (const KvTypeFit& fit : types) {
    json.BeginObject();
    TextMember("type", fit.element.name, json);
    BoolMember("planned_only", fit.element.planned_only(), json);
    BytesMember("bytes_per_token", fit.kv_bytes_per_token, json);
    IntMember("largest_context", fit.largest_context, json);
    IntMember("sequences", fit.sequences, json);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {};
}

// Sequences in what there is for keys and values: kv_size, or what the rest leaves of `memory`.
Status WriteConcurrency(const PlanQuestion& question, const MemoryPlan& plan, const KvCost& cost,
                        JsonWriter& json) {
  json.Key("concurrency");
  std::optional<uint64_t> bytes = question.kv_memory;
  if (!bytes && question.memory) {
    QUIRE_ASSIGN_OR_RETURN(bytes,
                           KvBytesThatFit(question.shape, question.options, *question.memory));
  }
  if (!bytes) {
    json.Null();
    return {};
  }
  const ConcurrencyOptions options{.context_tokens = plan.context_tokens,
                                   .prefill_chunk = question.options.prefill_chunk};
  QUIRE_ASSIGN_OR_RETURN(const Concurrency there, PlanConcurrency(cost, *bytes, options));
  json.BeginObject();
  BytesMember("kv_bytes", there.kv_bytes, json);
  IntMember("worst_case", there.worst_case, json);
  NumberMember("worst_case_ratio", there.worst_case_ratio, json);
  IntMember("expected", there.expected, json);
  IntMember("expected_steady", there.expected_steady, json);
  NumberMember("mean_live_tokens", there.live.mean_tokens, json);
  NumberMember("mean_input", options.lengths.mean_input, json);
  NumberMember("mean_output", options.lengths.mean_output, json);
  NumberMember("sigma", options.lengths.sigma, json);
  IntMember("max_total", options.lengths.max_total, json);
  json.EndObject();
  return {};
}

Result<std::string> Answer(const PlanQuestion& question) {
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(question.shape, question.options));
  QUIRE_ASSIGN_OR_RETURN(const KvCost cost,
                         KvCost::Make(question.shape.config, question.options.kv_element));
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  TextMember("object", "quire.plan_answer", json);
  IntMember("version", kQuireVersion, json);
  TextMember("model", question.model, json);
  BoolMember("is_preset", question.is_preset, json);
  TextMember("architecture", question.shape.config.architecture, json);
  BytesMember("parameters", question.shape.parameters, json);
  IntMember("model_context", question.shape.config.context_length, json);
  IntMember("context", plan.context_tokens, json);
  IntMember("sequences", plan.num_sequences, json);
  IntMember("prefill_chunk", question.options.prefill_chunk, json);
  IntMember("threads", question.options.num_threads, json);
  WriteKv(question, plan, cost, json);
  WriteMemory(plan, json);
  QUIRE_RETURN_IF_ERROR(WriteFits(question, json));
  QUIRE_RETURN_IF_ERROR(WriteConcurrency(question, plan, cost, json));
  json.Key("presets");
  json.BeginArray();
  for (const std::string_view name : PresetNames()) json.String(name);
  json.EndArray();
  json.EndObject();
  return body;
}

}  // namespace

std::variant<std::string, ApiError> PlanAnswerBody(const PlanDefaults& defaults,
                                                   const QueryFields& query) {
  PlanQuestion question{
      .model = defaults.model, .shape = defaults.shape, .options = defaults.options};
  if (auto error = ReadQuestion(query, question)) return *std::move(error);
  Result<std::string> body = Answer(question);
  if (!body.ok()) return ApiErrorOf(body.error());
  return std::move(body).value();
}

}  // namespace quire
