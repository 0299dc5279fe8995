#include "scenarios/scenario_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>

namespace quire {
namespace {

// More steps than any story needs.
constexpr int kMostSteps = 10000;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    std::string_view part = text.substr(0, end);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "1x34 7 8..10"; nothing where a word is none of these.
std::optional<std::vector<int32_t>> Tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const std::string_view word : Split(text, ' ')) {
    const size_t times = word.find('x');
    const size_t range = word.find("..");
    if (times != std::string_view::npos) {
      const auto token = Number(word.substr(0, times));
      const auto count = Number(word.substr(times + 1));
      if (!token || !count) return std::nullopt;
      tokens.insert(tokens.end(), *count, *token);
    } else if (range != std::string_view::npos) {
      const auto first = Number(word.substr(0, range));
      const auto last = Number(word.substr(range + 2));
      if (!first || !last) return std::nullopt;
      for (int token = *first; token <= *last; ++token) tokens.push_back(token);
    } else {
      const auto token = Number(word);
      if (!token) return std::nullopt;
      tokens.push_back(*token);
    }
  }
  return tokens;
}

}  // namespace

std::vector<std::string> ScenarioRunner::Play(const std::vector<std::string>& story) {
  ScenarioRunner runner;
  for (const std::string& line : story) {
    if (line.starts_with(' ')) continue;  // what is expected
    runner.told_.push_back(line);
    if (!line.empty() && !line.starts_with('#')) runner.Line(line);
  }
  runner.Finish();
  return std::move(runner.told_);
}

void ScenarioRunner::Line(std::string_view line) {
  const std::vector<std::string_view> words = Split(line, ' ');
  const std::string_view verb = words[0];
  const std::string_view rest = words.size() > 1 ? line.substr(verb.size() + 1) : "";
  if (verb == "pool" || verb == "options") {
    if (!Setup(words)) Error("expected `pool N blocks [windows ...]` or `options NAME VALUE ...`");
    return;
  }
  if (batch_ == nullptr) {
    cache_ = std::move(KvCache::Create(FakeModel::Layout(windows_), num_blocks_)).value();
    model_ = std::make_unique<FakeModel>(*cache_);
    batch_ = std::make_unique<Batch>(*cache_, options_);
  }
  if (verb == "request") {
    Request(rest);
  } else if (verb == "fork" && words.size() == 4) {
    Fork(words);
  } else if (verb == "append") {
    Append(rest);
  } else if (verb == "abort" || verb == "end") {
    Remove(rest);
  } else if (verb == "forget") {
    if (const SequenceId id = Named(rest)) batch_->Forget(id);
  } else if (verb == "step") {
    Step(true);
  } else if (verb == "steps" && words.size() > 1) {
    Steps(words);
  } else if (verb == "took" && words.size() == 3) {
    batch_->ObserveStep(last_plan_, Number(words[1]).value_or(0));
  } else if (verb == "at") {
    now_ms_ = Number(rest).value_or(0);
  } else if (verb == "tables") {
    if (const SequenceId id = Named(rest)) Tables(id);
  } else if (verb == "counters") {
    Counters();
  } else {
    Error("not a line of a story");
  }
  Check();
}

bool ScenarioRunner::Setup(const std::vector<std::string_view>& words) {
  if (batch_ != nullptr) return false;
  if (words[0] == "pool") {
    if (words.size() < 3 || !Number(words[1])) return false;
    num_blocks_ = *Number(words[1]);
    if (words.size() > 4) windows_.clear();
    for (size_t i = 4; i < words.size(); ++i) windows_.push_back(Number(words[i]).value_or(0));
    return true;
  }
  for (size_t i = 1; i + 1 < words.size(); i += 2) {
    const std::optional<int> value = Number(words[i + 1]);
    if (!value) return false;
    if (words[i] == "max_sequences") {
      options_.max_sequences = *value;
    } else if (words[i] == "max_batched_tokens") {
      options_.max_batched_tokens = *value;
    } else if (words[i] == "target_step_ms") {
      options_.target_step_ms = *value;
    } else if (words[i] == "admission_reserve") {
      options_.admission_reserve = *value;
    } else {
      return false;
    }
  }
  return true;
}

void ScenarioRunner::Request(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Error("expected `request sN: tokens, ...`");
  const auto parts = Split(text.substr(colon + 1), ',');
  const auto tokens = parts.empty() ? std::nullopt : Tokens(parts[0]);
  if (!tokens || tokens->empty()) return Error("expected tokens like `1x34 7 8..10`");
  SequenceSpec spec{.tokens = *tokens, .arrival_ms = now_ms_};
  size_t num_new = 1;
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto words = Split(parts[i], ' ');
    const int number = Number(words.back()).value_or(0);
    if (words.size() == 2 && words[1] == "new") {
      num_new = Number(words[0]).value_or(1);
    } else if (words[0] == "priority") {
      spec.priority = number;
    } else if (words[0] == "deadline") {
      spec.deadline_ms = number;
    } else if (words[0] == "chunk") {
      spec.max_chunk = number;
    } else if (words[0] == "salt") {
      spec.root = RootOf(Digest{}, words.back());
    } else if (words[0] == "computed") {
      spec.reads_cache = false;
    } else if (words[0] == "private") {
      spec.keeps_cache = false;
    } else if (parts[i] == "by hand") {
      num_new = 0;
    } else {
      return Error(fmt::format("`{}` says nothing of a request", parts[i]));
    }
  }
  const SequenceId id = batch_->Add(std::move(spec));
  sequences_[id] = {.num_new = num_new};
  Expect(text.substr(0, colon), id);
}

void ScenarioRunner::Fork(const std::vector<std::string_view>& words) {
  const SequenceId parent = Named(words[3]);
  if (parent == 0) return;
  const SequenceId id = batch_->Fork(parent);
  sequences_[id] = sequences_.at(parent);
  Expect(words[1], id);
}

void ScenarioRunner::Append(std::string_view text) {
  const size_t colon = text.find(':');
  const SequenceId id = Named(text.substr(0, colon));
  const auto tokens =
      colon == std::string_view::npos ? std::nullopt : Tokens(text.substr(colon + 1));
  if (!tokens) return Error("expected `append sN: tokens`");
  if (id == 0) return;
  for (const int32_t token : *tokens) batch_->Append(id, token);
}

void ScenarioRunner::Remove(std::string_view name) {
  const SequenceId id = Named(name);
  if (id == 0) return;
  batch_->Remove(id);
  sequences_.erase(id);
  SayBlocks();
}

void ScenarioRunner::Steps(const std::vector<std::string_view>& words) {
  if (const auto count = Number(words[1])) {
    for (int i = 0; i < *count; ++i) Step(false);
    return SayBlocks();
  }
  if (words.size() != 4 || words[1] != "until") {
    return Error("expected `steps N`, `steps until sN ends` or `steps until all end`");
  }
  const SequenceId awaited = words[2] == "all" ? 0 : Named(words[2]);
  for (int i = 0; i < kMostSteps; ++i) {
    if (awaited == 0 ? sequences_.empty() : !sequences_.contains(awaited)) {
      Say(fmt::format("steps: {}", i));
      return SayBlocks();
    }
    Step(false);
  }
  Error("it never ends");
}

void ScenarioRunner::Step(bool is_shown) {
  last_plan_ = batch_->Plan(now_ms_++);
  if (is_shown) {
    for (const PlanLine& line : last_plan_.lines) Say(ToString(line));
    if (last_plan_.lines.empty()) Say("nothing to do");
  }
  const std::vector<StepItem> items = batch_->Begin(last_plan_);
  if (std::string wrong = model_->Forward(items); !wrong.empty()) Error(std::move(wrong));
  batch_->Commit(items);
  for (const StepItem& item : items) {
    Told& told = sequences_.at(item.sequence);
    if (!item.reaches_end || told.num_new == 0) continue;
    batch_->Append(item.sequence, FakeModel::Sample(batch_->tokens(item.sequence)));
    if (++told.num_sampled < told.num_new) continue;
    if (is_shown) Say(fmt::format("s{} ends", item.sequence));
    batch_->Remove(item.sequence);
    sequences_.erase(item.sequence);
  }
  for (const PlanLine& line : last_plan_.lines) {
    if (line.action != PlanAction::kExpire) continue;
    batch_->Remove(line.sequence);
    sequences_.erase(line.sequence);
  }
  Check();
  if (is_shown) SayBlocks();
}

void ScenarioRunner::Tables(SequenceId id) {
  if (!batch_->is_running(id)) return Say(fmt::format("s{} holds nothing", id));
  std::vector<std::string> groups;
  for (int group = 0; group < cache_->layout().num_groups(); ++group) {
    std::vector<std::string> blocks;
    for (const BlockId block : batch_->table(id, group)) {
      blocks.push_back(block == kNoBlock ? "-" : fmt::format("{}", block));
    }
    groups.push_back(fmt::format("{}", fmt::join(blocks, " ")));
  }
  Say(fmt::format("s{} holds {}, {} tokens", id, fmt::join(groups, " | "),
                  batch_->num_computed(id)));
}

void ScenarioRunner::Counters() {
  const BatchCounters& batch = batch_->counters();
  const KvCounters& cache = cache_->counters();
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, std::string_view what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", what, count));
  };
  add(batch.admissions, "admitted");
  add(batch.preemptions, "preempted");
  add(batch.forks, "forked");
  add(batch.expired, "expired");
  add(batch.shared_waits, "waited for a prefix");
  add(cache.blocks_shared, "shared");
  add(cache.blocks_copied, "copied");
  add(cache.partial_hits, "partial hits");
  add(cache.blocks_evicted, "evicted");
  add(cache.window_releases, "left by windows");
  Say(fmt::format("{}", fmt::join(parts, ", ")));
}

void ScenarioRunner::SayBlocks() {
  const KvUsage usage = cache_->usage();
  Say(fmt::format("blocks: {} used, {} cached, {} free", usage.used_blocks, usage.cached_blocks,
                  usage.free_blocks));
}

SequenceId ScenarioRunner::Named(std::string_view name) {
  const auto number = name.starts_with('s') ? Number(name.substr(1)) : std::nullopt;
  if (number && sequences_.contains(*number)) return *number;
  Error(fmt::format("`{}` is no sequence that is under way", name));
  return 0;
}

void ScenarioRunner::Expect(std::string_view name, SequenceId id) {
  if (name != fmt::format("s{}", id)) Error(fmt::format("this is s{}", id));
}

void ScenarioRunner::Check() {
  batch_->CheckInvariants();
  cache_->CheckInvariants();
}

void ScenarioRunner::Finish() {
  if (batch_ == nullptr) return Error("the story is empty");
  for (const auto& [id, told] : sequences_) batch_->Remove(id);
  Check();
  if (const int64_t used = cache_->usage().used_blocks) Error(fmt::format("{} blocks used", used));
}

}  // namespace quire
