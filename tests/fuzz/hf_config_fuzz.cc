// Any bytes as a config.json: parsing gives a configuration or an error, and every configuration
// can be planned for or is refused.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/hf_config.h"
#include "plan/concurrency.h"
#include "plan/memory_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = quire::ParseHfConfig(text, "input");
  if (!config.ok()) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  if (config->windows.size() != static_cast<size_t>(config->num_layers)) std::abort();
  const quire::ModelShape shape = quire::ShapeOfHfConfig(*config, "input");
  for (const quire::KvElement& element : quire::kKvElements) {
    quire::PlanOptions options{
        .kv_element = element, .context_tokens = 1'000'000, .num_sequences = 3};
    const auto plan = quire::PlanMemory(shape, options);
    if (!plan.ok()) continue;
    if (plan->total_bytes() < plan->kv_bytes) std::abort();
    // The inverse agrees with the forward answer.
    const uint64_t budget = uint64_t{64} << 30;
    const auto context = quire::LargestContext(shape, options, budget);
    if (!context.ok()) std::abort();
    if (*context > 0) {
      options.context_tokens = *context;
      if (quire::PlanMemory(shape, options)->total_bytes() > budget) std::abort();
    }
  }
  return 0;
}
