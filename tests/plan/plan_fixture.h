// Shapes for the plan's tests, as configurations of the published form or by name.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "plan/concurrency.h"
#include "plan/memory_plan.h"
#include "plan/presets.h"

namespace quire::testing {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

inline ModelShape ShapeOfJson(const std::string& text) {
  const auto config = ParseHfConfig(text, "config.json");
  QUIRE_CHECK(config.ok(), "{}", config.error().message);
  return ShapeOfHfConfig(*config, "test");
}

inline ModelShape Preset(const std::string& name) {
  auto shape = FindPreset(name);
  QUIRE_CHECK(shape.has_value(), "no preset {}", name);
  return *std::move(shape);
}

inline KvCost Cost(const ModelShape& shape, std::string_view element = "f16") {
  auto cost = KvCost::Make(shape.config, *FindKvElement(element));
  QUIRE_CHECK(cost.ok(), "{}", cost.error().message);
  return *std::move(cost);
}

inline MemoryPlan Plan(const ModelShape& shape, const PlanOptions& options) {
  auto plan = PlanMemory(shape, options);
  QUIRE_CHECK(plan.ok(), "{}", plan.error().message);
  return *std::move(plan);
}

}  // namespace quire::testing
