// Model files of a test's own, read as far as the test needs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "models/config.h"
#include "models/pack.h"
#include "models/weight_plan.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire::testing {

// A file with its plan and packed weights.
struct PlannedFile {
  GgufFile file;
  ModelConfig config;
  WeightPlan plan;
};

class ModelsTest : public ::testing::Test {
 protected:
  std::filesystem::path Path(const std::string& name) const { return directory_.path() / name; }

  Result<PlannedFile> TryPlan(const std::filesystem::path& path) {
    QUIRE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
    PlannedFile planned{std::move(file), {}, {}};
    QUIRE_ASSIGN_OR_RETURN(planned.config, ReadModelConfig(planned.file));
    QUIRE_ASSIGN_OR_RETURN(planned.plan, PlanWeights(planned.file, planned.config));
    return planned;
  }

  PlannedFile Plan(const std::filesystem::path& path) {
    Result<PlannedFile> planned = TryPlan(path);
    QUIRE_CHECK(planned.ok(), "{}", planned.error().message);
    return std::move(planned).value();
  }

  PlannedFile PlanOf(const TinyLlama& model, const std::string& name = "model.gguf") {
    EXPECT_TRUE(model.Write(Path(name)));
    return Plan(Path(name));
  }

  // Why the model is refused by the configuration's reader or by the plan.
  std::string Refusal(const TinyLlama& model, ErrorCode* code = nullptr) {
    EXPECT_TRUE(model.Write(Path("refused.gguf")));
    const Result<PlannedFile> planned = TryPlan(Path("refused.gguf"));
    if (planned.ok()) return "accepted";
    if (code != nullptr) *code = planned.error().code;
    return planned.error().message;
  }

  Pack PackOf(const PlannedFile& planned) {
    Result<Pack> pack = PackWeights(planned.file, planned.plan, pool_, {});
    QUIRE_CHECK(pack.ok(), "{}", pack.error().message);
    return std::move(pack).value();
  }

  ScratchDirectory directory_;
  ThreadPool pool_{2};
};

inline bool SameBytes(const Pack& a, const Pack& b) {
  return std::ranges::equal(a.memory.bytes(), b.memory.bytes()) && a.digest == b.digest &&
         a.tensor_digests == b.tensor_digests;
}

}  // namespace quire::testing
