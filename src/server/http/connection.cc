#include "server/http/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/api_error.h"

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kReadBytes = size_t{4} << 10;
constexpr size_t kBodyReadBytes = size_t{64} << 10;
// What a client may send ahead of its answer.
constexpr size_t kMaxAheadBytes = size_t{16} << 10;
// Buffers that grew beyond it give their memory back between two uses.
constexpr size_t kKeptBytes = size_t{64} << 10;
// A client that is still sending when it is refused gets so much time and patience to read why:
// closing at once would reset the connection and take the answer with it.
constexpr milliseconds kLingerTimeout{5'000};
constexpr size_t kMaxLingerBytes = size_t{64} << 20;
constexpr milliseconds kShutdownTimeout{1'000};

void ReleaseIfLarge(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBytes) buffer = {};
}

}  // namespace

Connection::Connection(ConnectionHost& host, std::string remote)
    : host_(host), remote_(std::move(remote)) {}

void Connection::Start(bool needs_handshake) {
  if (needs_handshake) {
    SetDeadline(host_.options().header_timeout);
    return StartHandshake();
  }
  BeginRequest(host_.options().header_timeout);
  ReadOn();
}

void Connection::OnHandshake(bool is_ok) {
  if (phase_ == Phase::kClosed) return;
  if (!is_ok || host_.is_draining()) return Close();
  BeginRequest(host_.options().header_timeout);
  ReadOn();
}

void Connection::BeginRequest(milliseconds first_byte_timeout) {
  phase_ = Phase::kIdle;
  reader_.emplace(RequestLimits{.max_header_bytes = host_.options().max_header_bytes,
                                .max_body_bytes = host_.options().max_body_bytes});
  is_answer_complete_ = false;
  SetDeadline(first_byte_timeout);
}

void Connection::SetDeadline(milliseconds timeout) { deadline_ = steady_clock::now() + timeout; }

void Connection::ReadOn() {
  if (is_reading_ || has_input_ended_ || phase_ == Phase::kClosed) return;
  if (discards_input_) input_begin_ = input_end_ = 0;
  if (phase_ == Phase::kAnswering && unread().size() >= kMaxAheadBytes) return;
  if (input_begin_ > 0) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  const size_t count = phase_ == Phase::kBody || discards_input_ ? kBodyReadBytes : kReadBytes;
  if (input_.size() > kMaxAheadBytes && input_end_ + count <= kMaxAheadBytes) {
    input_.resize(input_end_ + count);
    input_.shrink_to_fit();
  } else if (input_.size() < input_end_ + count) {
    input_.resize(input_end_ + count);
  }
  is_reading_ = true;
  StartRead(input_.data() + input_end_, count);
}

void Connection::OnRead(ReadResult result, size_t count) {
  is_reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (result == ReadResult::kBytes) return OnBytes(count);
  has_input_ended_ = true;
  if (result == ReadResult::kLost) return Close();
  OnInputEnd();
}

void Connection::OnBytes(size_t count) {
  if (discards_input_) {
    discarded_bytes_ += count;
    if (discarded_bytes_ > kMaxLingerBytes) return Close();
  } else {
    input_end_ += count;
    Process();
  }
  ReadOn();
}

void Connection::OnInputEnd() {
  switch (phase_) {
    case Phase::kBody:
      return Refuse({.status = 400,
                     .message = fmt::format("the connection's sending half was closed after {} "
                                            "bytes of the body, before its end",
                                            reader_->body_bytes()),
                     .code = "incomplete_body"});
    case Phase::kAnswering:
      // Without a reply it is a refusal of ours, which still wants to be read.
      if (reply_ != nullptr && !reply_->has_ended()) return Close();
      closes_after_answer_ = true;
      return;
    default:
      return Close();
  }
}

void Connection::Process() {
  while (is_reading_requests() && input_begin_ < input_end_) {
    if (phase_ == Phase::kIdle) {
      phase_ = Phase::kHead;
      SetDeadline(host_.options().header_timeout);
    }
    size_t used = 0;
    const ReadProgress progress = reader_->Feed(unread(), &used);
    input_begin_ += used;
    const size_t added = reader_->body_bytes() - body_bytes_;
    body_bytes_ += added;
    if (!host_.TakeBodyBytes(added)) {
      return Refuse({.status = 503,
                     .message = "too many large bodies at once; try again later",
                     .type = "server_error",
                     .code = "overloaded"});
    }
    if (progress == ReadProgress::kNeedsMore) return;
    OnProgress(progress);
  }
}

void Connection::OnProgress(ReadProgress progress) {
  if (progress == ReadProgress::kRefused) return Refuse(reader_->error());
  if (progress == ReadProgress::kDone) return Dispatch();
  phase_ = Phase::kBody;
  SetDeadline(host_.options().body_timeout);
  if (reader_->expects_continue() && unread().empty()) {
    output_.append(kContinue);
    WriteOn();
  }
}

void Connection::Dispatch() {
  phase_ = Phase::kAnswering;
  deadline_.reset();
  ReturnBodyBytes();
  HttpRequest request = std::move(reader_->request());
  request.remote = remote_;
  const AnswerFraming framing{.is_http10 = reader_->is_http10(),
                              .is_head = request.method == "HEAD",
                              .keeps_alive = reader_->keeps_alive()};
  closes_after_answer_ = !framing.keeps_alive;
  reader_.reset();
  reply_ = std::make_shared<Reply>(framing, host_.queue(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->TakeNews();
  });
  host_.Handle(std::move(request), reply_->MakeExchange());
}

void Connection::Refuse(const ApiError& error) {
  phase_ = Phase::kAnswering;
  deadline_.reset();
  ReturnBodyBytes();
  closes_after_answer_ = discards_input_ = is_answer_complete_ = true;
  AppendAnswerHead({.status = error.status, .body = ToJson(error)},
                   {.is_head = reader_->request().method == "HEAD"});
  reader_.reset();
  WriteOn();
}

void Connection::AppendAnswerHead(const HttpResponse& head, AnswerFraming framing) {
  if (host_.is_draining() || (framing.is_http10 && framing.is_stream)) closes_after_answer_ = true;
  framing.keeps_alive = !closes_after_answer_;
  AppendHead(output_, head, framing, host_.date());
  if (!framing.is_head && !framing.is_stream) output_.append(head.body);
}

void Connection::TakeNews() {
  if (phase_ != Phase::kAnswering || reply_ == nullptr) return;
  if (unsent_bytes() > host_.options().max_unsent_bytes) return Close();
  Reply::News news = reply_->Take(pieces_);
  if (news.head) AppendAnswerHead(*news.head, news.framing);
  if (output_.empty()) {
    output_.swap(pieces_);
  } else {
    output_.append(pieces_);
  }
  // What there is goes out, and its end is missing: the client cannot take it for the whole.
  if (news.was_given_up) closes_after_answer_ = true;
  is_answer_complete_ = news.has_ended;
  WriteOn();
  reply_->NoteUnsent(unsent_bytes());
  FinishAnswer();
}

void Connection::WriteOn() {
  if (is_writing_ || output_.empty()) return;
  ReleaseIfLarge(sending_);
  sending_.swap(output_);
  sent_bytes_ = 0;
  is_writing_ = true;
  write_deadline_ = steady_clock::now() + host_.options().write_timeout;
  StartWrite(sending_);
}

void Connection::OnWrite(bool is_ok, size_t count) {
  is_writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (!is_ok) return Close();
  sent_bytes_ += count;
  if (reply_ != nullptr) reply_->NoteUnsent(unsent_bytes());
  if (sent_bytes_ < sending_.size()) {
    is_writing_ = true;
    write_deadline_ = steady_clock::now() + host_.options().write_timeout;
    return StartWrite(std::string_view(sending_).substr(sent_bytes_));
  }
  ReleaseIfLarge(sending_);
  sent_bytes_ = 0;
  WriteOn();
  FinishAnswer();
}

void Connection::FinishAnswer() {
  if (phase_ != Phase::kAnswering || !is_answer_complete_ || is_writing_) return;
  reply_.reset();
  if (closes_after_answer_ || has_input_ended_ || host_.is_draining()) return BeginClosing();
  BeginRequest(host_.options().idle_timeout);
  Process();
  ReadOn();
}

void Connection::BeginClosing() {
  lingers_ = (discards_input_ || !unread().empty()) && !has_input_ended_;
  phase_ = Phase::kClosing;
  discards_input_ = true;
  SetDeadline(lingers_ ? kLingerTimeout : kShutdownTimeout);
  StartShutdown();
}

void Connection::OnShutdown() {
  if (phase_ == Phase::kClosed) return;
  if (!lingers_ || has_input_ended_) return Close();
  ReadOn();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const auto self = shared_from_this();
  deadline_.reset();
  CloseSocket();
  ReturnBodyBytes();
  host_.OnClosed(*this);
  if (const auto reply = std::exchange(reply_, nullptr)) reply->MarkGone();
}

void Connection::ReturnBodyBytes() { host_.ReturnBodyBytes(std::exchange(body_bytes_, 0)); }

void Connection::Drain() {
  switch (phase_) {
    case Phase::kHandshake:
    case Phase::kHead:
      return Close();
    case Phase::kIdle:
      return BeginClosing();
    case Phase::kClosing:
      deadline_ = std::min(*deadline_, steady_clock::now() + kShutdownTimeout);
      return;
    default:  // closes after its answer, for which one who does not read is not waited long
      if (is_answer_complete_ && is_writing_) {
        write_deadline_ = std::min(write_deadline_, steady_clock::now() + kShutdownTimeout);
      }
      return;
  }
}

void Connection::Tick(TimePoint now) {
  if (is_writing_ && now >= write_deadline_) return Close();
  if (phase_ == Phase::kAnswering && !is_reading_ && !has_input_ended_ && IsPeerGone()) {
    return Close();
  }
  if (!deadline_ || now < *deadline_) return;
  if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    return Refuse({.status = 408,
                   .message = phase_ == Phase::kHead
                                  ? "the request's headers took too long to arrive"
                                  : "the request's body took too long to arrive",
                   .code = "request_timeout"});
  }
  Close();
}

}  // namespace quire
