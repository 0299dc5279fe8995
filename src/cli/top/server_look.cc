#include "cli/top/server_look.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "cli/top/metric_samples.h"
#include "formats/printable.h"

namespace quire {
namespace {

constexpr size_t kMaxTiers = 32;
// Sums and differences of a few such numbers fit, and a double tells them apart.
constexpr int64_t kMaxCount = int64_t{1} << 53;

// Members of an answer, by a path such as "blocks.used"; remembers the first that is not there.
class Members {
 public:
  explicit Members(const boost::json::value& root) : root_(root) {}

  int64_t Count(std::string_view path) {
    const std::optional<int64_t> count = CountOf(Find(path));
    if (!count && fault_.empty()) {
      fault_ = fmt::format("'{}' is not a whole number of 0 to 2^53", path);
    }
    return count.value_or(0);
  }
  // 0 where it is absent.
  int64_t CountOrZero(std::string_view path) { return Find(path) == nullptr ? 0 : Count(path); }
  const boost::json::value* Find(std::string_view path) const {
    const boost::json::value* value = &root_;
    while (!path.empty()) {
      const size_t end = std::min(path.find('.'), path.size());
      const boost::json::object* object = value->if_object();
      value = object == nullptr ? nullptr : object->if_contains(path.substr(0, end));
      if (value == nullptr) return nullptr;
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    return value;
  }
  // Of all whole numbers in an object, whatever their names.
  int64_t SumOf(std::string_view path) {
    const boost::json::value* value = Find(path);
    const boost::json::object* object = value == nullptr ? nullptr : value->if_object();
    int64_t sum = 0;
    if (object == nullptr || object->size() > 64) return sum;
    for (const auto& member : *object) sum += CountOf(&member.value()).value_or(0);
    return std::min(sum, kMaxCount);
  }

  static std::optional<int64_t> CountOf(const boost::json::value* value) {
    if (value == nullptr) return std::nullopt;
    const int64_t* count = value->if_int64();
    if (count == nullptr || *count < 0 || *count > kMaxCount) return std::nullopt;
    return *count;
  }
  static std::string TextOf(const boost::json::value* value) {
    const boost::json::string* text = value == nullptr ? nullptr : value->if_string();
    return text == nullptr ? std::string() : Printable(*text);
  }

  const std::string& fault() const { return fault_; }

 private:
  const boost::json::value& root_;
  std::string fault_;
};

void ReadTiers(const Members& cache, ServerLook& look) {
  const boost::json::value* value = cache.Find("tiers");
  const boost::json::array* tiers = value == nullptr ? nullptr : value->if_array();
  if (tiers == nullptr) return;
  for (const boost::json::value& entry : *tiers) {
    if (look.tiers.size() == kMaxTiers) return;
    const Members tier(entry);
    look.tiers.push_back({.tier = Members::TextOf(tier.Find("tier")),
                          .place = Members::TextOf(tier.Find("place")),
                          .is_up = Members::TextOf(tier.Find("state")) == "up",
                          .reason = Members::TextOf(tier.Find("reason")),
                          .records = Members::CountOf(tier.Find("records")),
                          .bytes = Members::CountOf(tier.Find("bytes")),
                          .max_bytes = Members::CountOf(tier.Find("max_bytes"))});
  }
}

void ReadCache(Members& cache, ServerLook& look) {
  look.running = cache.Count("requests.running");
  look.waiting = cache.Count("requests.waiting");
  look.block_tokens = cache.Count("block_tokens");
  look.block_bytes = cache.Count("block_bytes");
  look.total_blocks = cache.Count("blocks.total");
  look.used_blocks = cache.Count("blocks.used");
  look.cached_blocks = cache.Count("blocks.cached");
  look.free_blocks = cache.Count("blocks.free");
  look.pinned_blocks = cache.Count("pinned.blocks");
  ReadTiers(cache, look);
  ServerCounts& counts = look.counts;
  counts.output_tokens = cache.Count("tokens.generated");
  counts.prompt_tokens = cache.Count("tokens.prompt");
  counts.cached_tokens = cache.Count("tokens.cached");
  counts.computed_tokens = cache.Count("tokens.computed");
  counts.looked_up_tokens = cache.Count("prefix_cache.tokens_looked_up");
  counts.found_tokens = cache.Count("prefix_cache.tokens_found");
  counts.preemptions = cache.Count("events.preemptions");
  counts.evicted_blocks = cache.SumOf("evictions");
  counts.disk_tokens = cache.CountOrZero("loads.tokens_from_disk");
  counts.remote_tokens = cache.CountOrZero("loads.tokens_from_remote");
}

int64_t WholeOf(double value) {
  return value > 0 && value < static_cast<double>(kMaxCount) ? std::llround(value) : 0;
}

void ReadMetrics(const MetricSamples& metrics, ServerLook& look) {
  look.model = Printable(metrics.LabelOf("vllm:num_requests_running", "model_name"));
  look.version = Printable(metrics.LabelOf("quire_build_info", "version"));
  look.start_time_s = metrics.Find("process_start_time_seconds").value_or(0);
  ServerCounts& counts = look.counts;
  counts.steps = WholeOf(metrics.Sum("quire_steps_total"));
  counts.requests_ended = WholeOf(metrics.Sum("vllm:request_success_total"));
  counts.requests_refused = WholeOf(metrics.Sum("quire_refused_requests_total"));
  counts.draft_tokens = WholeOf(metrics.Sum("vllm:spec_decode_num_draft_tokens_total"));
  counts.accepted_tokens = WholeOf(metrics.Sum("vllm:spec_decode_num_accepted_tokens_total"));
  counts.ttft = metrics.HistogramOf("vllm:time_to_first_token_seconds");
  counts.itl = metrics.HistogramOf("vllm:inter_token_latency_seconds");
}

constexpr int64_t ServerCounts::* kCounts[] = {
    &ServerCounts::output_tokens,  &ServerCounts::prompt_tokens,    &ServerCounts::cached_tokens,
    &ServerCounts::disk_tokens,    &ServerCounts::remote_tokens,    &ServerCounts::looked_up_tokens,
    &ServerCounts::found_tokens,   &ServerCounts::computed_tokens,  &ServerCounts::steps,
    &ServerCounts::requests_ended, &ServerCounts::requests_refused, &ServerCounts::preemptions,
    &ServerCounts::evicted_blocks, &ServerCounts::draft_tokens,     &ServerCounts::accepted_tokens,
};

}  // namespace

std::optional<ServerCounts> ServerCounts::Since(const ServerCounts& earlier) const {
  ServerCounts since = *this;
  for (int64_t ServerCounts::* const count : kCounts) {
    since.*count -= earlier.*count;
    if (since.*count < 0) return std::nullopt;
  }
  since.ttft = ttft.Since(earlier.ttft);
  since.itl = itl.Since(earlier.itl);
  return since;
}

Result<ServerLook> ReadLook(std::string_view cache_json, std::string_view metrics_text) {
  boost::system::error_code error;
  const boost::json::value root =
      boost::json::parse(cache_json, error, {}, {.max_depth = 16, .allow_comments = false});
  if (error) {
    return MakeError(ErrorCode::kCorrupt, "/quire/cache: not JSON ({}); it begins with '{}'",
                     error.message(), Printable(cache_json, 40));
  }
  Members cache(root);
  ServerLook look;
  ReadCache(cache, look);
  if (!cache.fault().empty()) {
    return MakeError(ErrorCode::kCorrupt, "/quire/cache: {}", cache.fault());
  }
  QUIRE_ASSIGN_OR_RETURN(const MetricSamples metrics, MetricSamples::Parse(metrics_text));
  ReadMetrics(metrics, look);
  return look;
}

std::string ErrorMessageIn(std::string_view body) {
  boost::system::error_code error;
  const boost::json::value root =
      boost::json::parse(body, error, {}, {.max_depth = 16, .allow_comments = false});
  return error ? std::string() : Members::TextOf(Members(root).Find("error.message"));
}

}  // namespace quire
