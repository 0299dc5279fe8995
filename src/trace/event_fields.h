// The fields of every event, named once: what writes and what reads them goes through the same
// list, so that they cannot differ.
//
// Describe(form, event) calls the form for each field:
//   Ms       milliseconds           Id      whole number that names something; always written
//   Real     any finite number      Count   whole number, 0 and above
//   Flag     true or false          Index   whole number, -1 and above, with what it is by default
//   Text     a string               Enum    one of a list of names
//   Each     a list of structs
// Inside the room only.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "trace/events.h"

namespace quire::trace_fields {

// E is T or const T.
template <typename E, typename T>
concept Of = std::same_as<std::remove_const_t<E>, T>;

void Describe(auto& form, Of<TraceLayer> auto& layer) {
  form.Count("group", layer.group);
  form.Count("window", layer.window);
  form.Count("num_heads", layer.num_heads);
  form.Count("num_kv_heads", layer.num_kv_heads);
  form.Count("key_dim", layer.key_dim);
  form.Count("value_dim", layer.value_dim);
  form.Count("kv_bytes_per_token", layer.kv_bytes_per_token);
}

void Describe(auto& form, Of<RunEvent> auto& run) {
  form.Real("unix_time", run.unix_time);
  form.Text("quire", run.quire);
  form.Text("model", run.model);
  form.Text("family", run.family);
  form.Count("num_layers", run.num_layers);
  form.Count("hidden_width", run.hidden_width);
  form.Count("vocab_size", run.vocab_size);
  form.Count("context_length", run.context_length);
  form.Count("weight_bytes", run.weight_bytes);
  form.Each("layers", run.layers);
  form.Text("kv_type", run.kv_type);
  form.Count("block_slots", run.block_slots);
  form.Count("num_groups", run.num_groups);
  form.Count("num_blocks", run.num_blocks);
  form.Count("block_bytes", run.block_bytes);
  form.Text("kernels", run.kernels);
  form.Count("num_threads", run.num_threads);
  form.Real("bytes_per_second", run.bytes_per_second);
  form.Real("int8_ops_per_second", run.int8_ops_per_second);
  form.Real("f32_ops_per_second", run.f32_ops_per_second);
}

void Describe(auto& form, Of<RequestEvent> auto& request) {
  form.Ms("ms", request.ms);
  form.Id("request", request.request);
  form.Text("name", request.name);
  form.Flag("is_pin", request.is_pin);
  form.Count("prompt_tokens", request.prompt_tokens);
  form.Count("max_tokens", request.max_tokens);
  form.Count("num_choices", request.num_choices);
}

void Describe(auto& form, Of<StepLine> auto& line) {
  form.Id("sequence", line.sequence);
  form.Id("request", line.request);
  form.Text("action", line.action);
  form.Text("reason", line.reason);
  form.Flag("is_admission", line.is_admission);
  form.Count("cached_tokens", line.cached_tokens);
  form.Count("first_position", line.first_position);
  form.Count("num_tokens", line.num_tokens);
  form.Count("num_drafts", line.num_drafts);
  form.Count("sequence_tokens", line.sequence_tokens);
  form.Count("blocks_needed", line.blocks_needed);
  form.Count("blocks_available", line.blocks_available);
  form.Count("other", line.other);
}

void Describe(auto& form, Of<OperatorTime> auto& time) {
  form.Enum("operators", time.operators, kNumDecoderOperators);
  form.Ms("ms", time.ms);
  form.Real("ops", time.ops);
  form.Real("bytes", time.bytes);
}

void Describe(auto& form, Of<StepEvent> auto& step) {
  form.Ms("ms", step.ms);
  form.Id("step", step.step);
  form.Ms("forward_ms", step.forward_ms);
  form.Ms("total_ms", step.total_ms);
  form.Count("num_tokens", step.num_tokens);
  form.Each("lines", step.lines);
  form.Each("operators", step.operators);
  form.Count("num_running", step.num_running);
  form.Count("num_waiting", step.num_waiting);
  form.Count("used_blocks", step.used_blocks);
  form.Count("cached_blocks", step.cached_blocks);
}

void Describe(auto& form, Of<BlockEvent> auto& block) {
  form.Ms("ms", block.ms);
  form.Enum("change", block.change, kNumBlockChanges);
  form.Id("block", block.block);
  form.Index("other", block.other, -1);
  form.Index("group", block.group, 0);
  form.Count("references", block.references);
  form.Flag("findable", block.findable);
  form.Count("sequence", block.sequence);
  form.Text("reason", block.reason);
}

void Describe(auto& form, Of<TraceCandidate> auto& candidate) {
  form.Id("token", candidate.token);
  form.Real("log_prob", candidate.log_prob);
}

void Describe(auto& form, Of<TokenEvent> auto& token) {
  form.Ms("ms", token.ms);
  form.Id("request", token.request);
  form.Count("choice", token.choice);
  form.Count("position", token.position);
  form.Id("token", token.token);
  form.Text("text", token.text);
  form.Flag("was_drafted", token.was_drafted);
  form.Each("candidates", token.candidates);
}

void Describe(auto& form, Of<EndEvent> auto& end) {
  form.Ms("ms", end.ms);
  form.Id("request", end.request);
  form.Flag("is_pin", end.is_pin);
  form.Text("reason", end.reason);
  form.Text("error", end.error);
  form.Flag("prompt_computed", end.prompt_computed);
  form.Count("prompt_tokens", end.prompt_tokens);
  form.Count("completion_tokens", end.completion_tokens);
  form.Count("cached_memory", end.cached_memory);
  form.Count("cached_disk", end.cached_disk);
  form.Count("cached_remote", end.cached_remote);
  form.Text("miss", end.miss);
  form.Count("miss_position", end.miss_position);
  form.Text("miss_text", end.miss_text);
  form.Count("num_preemptions", end.num_preemptions);
  form.Count("draft_tokens", end.draft_tokens);
  form.Count("accepted_draft_tokens", end.accepted_draft_tokens);
  form.Ms("queue_ms", end.queue_ms);
  form.Ms("tier_wait_ms", end.tier_wait_ms);
  form.Ms("first_token_ms", end.first_token_ms);
  form.Ms("decode_ms", end.decode_ms);
  form.Ms("total_ms", end.total_ms);
}

void Describe(auto& form, Of<DroppedEvent> auto& dropped) {
  form.Ms("ms", dropped.ms);
  form.Count("count", dropped.count);
}

constexpr std::string_view NameOf(const RunEvent&) { return "run"; }
constexpr std::string_view NameOf(const RequestEvent&) { return "request"; }
constexpr std::string_view NameOf(const StepEvent&) { return "step"; }
constexpr std::string_view NameOf(const BlockEvent&) { return "block"; }
constexpr std::string_view NameOf(const TokenEvent&) { return "token"; }
constexpr std::string_view NameOf(const EndEvent&) { return "end"; }
constexpr std::string_view NameOf(const DroppedEvent&) { return "dropped"; }

}  // namespace quire::trace_fields
