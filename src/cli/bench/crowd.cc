#include "cli/bench/crowd.h"

#include <algorithm>
#include <utility>

namespace quire {

Crowd::~Crowd() {
  for (const Member& member : members_) {
    if (!member.has_ended) engine_.Abort(member.id);
  }
  engine_.RunUntilIdle();
}

Status Crowd::Add(Request request, std::function<void()> on_token) {
  const size_t at = members_.size();
  // Ended until it has begun.
  members_.push_back({.has_ended = true});
  RequestHooks hooks{.on_piece =
                         [this, at, on_token = std::move(on_token)](const AnswerPiece&) {
                           ++members_[at].num_tokens;
                           if (on_token) on_token();
                         },
                     .on_finish =
                         [this, at](const RequestResult& result) {
                           members_[at].has_ended = true;
                           num_preemptions_ += result.num_preemptions;
                           if (failure_.ok()) failure_ = result.status;
                         }};
  QUIRE_ASSIGN_OR_RETURN(members_[at].id, engine_.Submit(std::move(request), std::move(hooks)));
  members_[at].has_ended = false;
  return {};
}

Status Crowd::StepUntil(const std::function<bool()>& done) {
  while (!done()) {
    if (!go_on_()) return MakeError(ErrorCode::kInterrupted, "interrupted");
    if (!engine_.Step()) break;
    QUIRE_RETURN_IF_ERROR(failure_);
  }
  return failure_;
}

int Crowd::fewest_tokens() const {
  return std::ranges::min_element(members_, {}, &Member::num_tokens)->num_tokens;
}

int64_t Crowd::num_tokens() const {
  int64_t sum = 0;
  for (const Member& member : members_) sum += member.num_tokens;
  return sum;
}

}  // namespace quire
