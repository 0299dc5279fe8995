#include "engine/prefix_report.h"

#include <algorithm>

namespace quire {

PrefixReport ReportPrefix(const Engine& engine, const Request& request) {
  PrefixReport report;
  if (!request.use_kv_cache || request.prompt_logprobs || request.embedding) {
    report.miss.reason = MissReason::kNotRead;
    return report;
  }
  IdentityChain chain(RootOf(engine.runner().fingerprint(), request.cache_salt));
  // The last token is computed whatever is cached: an answer needs what follows from it.
  const int most = static_cast<int>(request.prompt.size()) - 1;
  report.match = engine.cache().Match(chain, request.prompt, most);
  report.miss = engine.cache().Explain(chain, request.prompt, report.match.num_tokens);
  report.tier_tokens =
      std::max(0, engine.StoredTokens(chain, request.prompt) - report.match.num_tokens);
  return report;
}

}  // namespace quire
