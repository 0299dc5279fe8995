#include "kv/tiers/redis/redis_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace quire {
namespace {

using std::chrono::steady_clock;

constexpr size_t kMaxReasonBytes = 200;

TierDeadline After(double ms) {
  return steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                   std::chrono::duration<double, std::milli>(ms));
}

RecordFault FaultOf(RespFault fault) {
  switch (fault) {
    case RespFault::kNone:
      return RecordFault::kNone;
    case RespFault::kTimeout:
      return RecordFault::kTimeout;
    case RespFault::kCancelled:
      return RecordFault::kCancelled;
    case RespFault::kLost:
    case RespFault::kProtocol:
      break;
  }
  return RecordFault::kIo;
}

// AUTH and SELECT, as far as the URL asks for them.
RespFault Introduce(const RedisUrl& url, RespConnection& connection, TierDeadline deadline,
                    const RespCancelled& cancelled, std::string* reason) {
  std::vector<std::string_view> said;
  if (!url.password.empty()) {
    if (url.user.empty()) {
      connection.Send({"AUTH", url.password});
    } else {
      connection.Send({"AUTH", url.user, url.password});
    }
    said.push_back("AUTH");
  }
  const std::string db = std::to_string(url.db);
  if (url.db != 0) {
    connection.Send({"SELECT", db});
    said.push_back("SELECT");
  }
  for (const std::string_view command : said) {
    RespReply reply;
    const RespFault fault = connection.Receive(deadline, cancelled, &reply);
    if (fault != RespFault::kNone) {
      *reason = connection.reason();
      return fault;
    }
    if (reply.kind != RespReply::Kind::kStatus) {
      // What follows the first word may repeat what was sent.
      const std::string_view code = std::string_view(reply.text).substr(0, reply.text.find(' '));
      *reason = fmt::format("{} was refused: {}", command, Printable(code));
      return RespFault::kLost;
    }
  }
  return RespFault::kNone;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string line(text.substr(0, kMaxReasonBytes));
  for (char& c : line) {
    if (c < ' ' || c > '~') c = '?';
  }
  return line;
}

RedisLink::RedisLink(RedisUrl url, RedisLinkOptions options)
    : url_(std::move(url)),
      options_(std::move(options)),
      addresses_(url_),
      breaker_(options_.max_failures) {}

std::unique_ptr<RespConnection> RedisLink::Connect(TierDeadline deadline,
                                                   const RespCancelled& cancelled, RespFault* fault,
                                                   std::string* reason) {
  deadline = std::min(deadline, After(options_.connect_ms));
  const auto addresses = addresses_.Get(deadline);
  if (!addresses.ok()) {
    *fault = RespFault::kLost;
    *reason = addresses.error().message;
    return nullptr;
  }
  for (const HostAddress& address : *addresses) {
    auto connection =
        RespConnection::Connect(reinterpret_cast<const sockaddr*>(&address.storage), address.size,
                                options_.limits, deadline, cancelled, fault, reason);
    if (connection == nullptr) continue;
    *fault = Introduce(url_, *connection, deadline, cancelled, reason);
    return *fault == RespFault::kNone ? std::move(connection) : nullptr;
  }
  addresses_.Forget();
  return nullptr;
}

std::unique_ptr<RespConnection> RedisLink::Take(TierDeadline deadline,
                                                const RespCancelled& cancelled, RespFault* fault,
                                                std::string* reason) {
  std::unique_ptr<RespConnection> connection;
  {
    std::unique_lock lock(mutex_);
    if (!given_back_.wait_until(lock, deadline, [this] { return num_taken_ < kMaxConnections; })) {
      *fault = RespFault::kTimeout;  // of our own making: without a reason nobody is blamed
      return nullptr;
    }
    ++num_taken_;
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (connection != nullptr && !connection->IsIdle()) {
    // The server closed it: it may have been restarted, and every other one is as old.
    connection = nullptr;
    std::vector<std::unique_ptr<RespConnection>> stale;
    {
      const std::lock_guard lock(mutex_);
      stale = std::exchange(idle_, {});
    }
    if (options_.on_lost) options_.on_lost();
  }
  if (connection == nullptr) connection = Connect(deadline, cancelled, fault, reason);
  if (connection == nullptr) GiveBack(nullptr);
  return connection;
}

void RedisLink::GiveBack(std::unique_ptr<RespConnection> connection) {
  if (connection != nullptr && !connection->IsIdle()) connection = nullptr;
  {
    const std::lock_guard lock(mutex_);
    --num_taken_;
    if (connection != nullptr) idle_.push_back(std::move(connection));
  }
  given_back_.notify_one();
}

void RedisLink::Succeed() {
  const std::lock_guard lock(mutex_);
  breaker_.Succeed();
  reason_.clear();
}

void RedisLink::Fail(Admission admission, std::string reason) {
  const double now_ms = options_.now_ms();
  const std::lock_guard lock(mutex_);
  if (breaker_.Fail(admission, now_ms)) ++times_down_;
  reason_ = fmt::format("{}: {}", url_.shown, reason);
}

void RedisLink::Abandon(Admission admission) {
  const std::lock_guard lock(mutex_);
  breaker_.Abandon(admission);
}

void RedisLink::Trip() {
  const double now_ms = options_.now_ms();
  const std::lock_guard lock(mutex_);
  if (breaker_.Trip(now_ms)) ++times_down_;
}

TierState RedisLink::state() const {
  const double now_ms = options_.now_ms();
  const std::lock_guard lock(mutex_);
  return {.is_up = breaker_.IsReady(now_ms),
          .reason = reason_,
          .down_for_ms = breaker_.OpenForMs(now_ms)};
}

int64_t RedisLink::times_down() const {
  const std::lock_guard lock(mutex_);
  return times_down_;
}

RedisLink::Exchange::Exchange(RedisLink* link, TierDeadline deadline, RespCancelled cancelled)
    : link_(link),
      deadline_(deadline),
      cancelled_(std::move(cancelled)),
      begun_(steady_clock::now()) {
  if (deadline <= begun_) {
    fault_ = RecordFault::kTimeout;
    return;
  }
  {
    const double now_ms = link->options_.now_ms();
    const std::lock_guard lock(link->mutex_);
    admission_ = link->breaker_.Admit(now_ms);
  }
  if (admission_ == Admission::kRefused) {
    fault_ = RecordFault::kDown;
    return;
  }
  RespFault fault = RespFault::kNone;
  std::string reason;
  connection_ = link->Take(deadline, cancelled_, &fault, &reason);
  if (connection_ == nullptr) End(fault, std::move(reason));
}

RedisLink::Exchange::~Exchange() {
  // Only what was admitted and has no end yet.
  if (fault_ != RecordFault::kNone) return;
  if (num_replies_ > 0) {
    link_->Succeed();
  } else {
    link_->Abandon(admission_);
  }
  link_->GiveBack(std::move(connection_));
}

RecordFault RedisLink::Exchange::End(RespFault fault, std::string reason) {
  fault_ = FaultOf(fault);
  const std::chrono::duration<double, std::milli> waited = steady_clock::now() - begun_;
  const bool is_silent =
      !reason.empty() &&
      (fault == RespFault::kTimeout ||
       (fault == RespFault::kCancelled && waited.count() >= link_->options_.connect_ms));
  const bool is_broken = fault == RespFault::kLost || fault == RespFault::kProtocol;
  if (is_broken || (is_silent && num_replies_ == 0)) {
    link_->Fail(admission_, std::move(reason));
    if (link_->options_.on_lost) link_->options_.on_lost();
  } else if (num_replies_ > 0) {
    link_->Succeed();
  } else {
    link_->Abandon(admission_);
  }
  if (connection_ != nullptr) link_->GiveBack(std::move(connection_));
  return fault_;
}

RecordFault RedisLink::Exchange::Receive(RespReply* reply) {
  if (fault_ != RecordFault::kNone) return fault_;
  const RespFault fault = connection_->Receive(deadline_, cancelled_, reply);
  if (fault != RespFault::kNone) return End(fault, connection_->reason());
  ++num_replies_;
  return RecordFault::kNone;
}

RecordFault RedisLink::Exchange::Refuse(std::string reason) {
  if (fault_ != RecordFault::kNone) return fault_;
  // What it said may hold for the connection alone, such as a password that has changed.
  connection_ = nullptr;
  link_->GiveBack(nullptr);
  return End(RespFault::kLost, std::move(reason));
}

}  // namespace quire
