// What GET /quire/plan answers to a question: the planner's figures for other sizes than those that
// run, or for another model's published shape (docs/serving.md has the parameters).
//
// Nothing is computed or measured. Pure function, any thread; takes some milliseconds.
#pragma once

#include <string>
#include <variant>

#include "plan/memory_plan.h"
#include "server/api_error.h"
#include "server/http/query.h"

namespace quire {

// What is taken where the question does not say.
struct PlanDefaults {
  std::string model{};  // the served one's name
  ModelShape shape{};   // and shape
  PlanOptions options{};
};

// 400 naming the parameter for one that is unknown, given twice or out of range.
std::variant<std::string, ApiError> PlanAnswerBody(const PlanDefaults& defaults,
                                                   const QueryFields& query);

}  // namespace quire
