#include "server/http/reply.h"

#include <utility>

#include "base/check.h"
#include "server/api_error.h"

namespace quire {

class Reply::Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<Reply> reply) : reply_(std::move(reply)) {}
  ~Exchange() override { reply_->GiveUp(); }

  void Respond(HttpResponse response) override { reply_->Respond(std::move(response)); }
  void BeginStream(HttpResponse head) override { reply_->BeginStream(std::move(head)); }
  void Write(std::string bytes) override { reply_->Write(bytes); }
  void EndStream() override { reply_->EndStream(); }
  void OnGone(std::function<void()> callback) override { reply_->OnGone(std::move(callback)); }
  size_t unsent_bytes() const override { return reply_->unsent_bytes(); }

 private:
  std::shared_ptr<Reply> reply_;
};

Reply::Reply(AnswerFraming framing, std::shared_ptr<NetworkQueue> network,
             std::function<void()> on_news)
    : network_(std::move(network)), on_news_(std::move(on_news)), framing_(framing) {}

std::shared_ptr<HttpExchange> Reply::MakeExchange() {
  return std::make_shared<Exchange>(shared_from_this());
}

Reply::News Reply::Take(std::string& bytes) {
  bytes.clear();
  const std::scoped_lock lock(mutex_);
  bytes.swap(bytes_);
  unsent_bytes_ += bytes.size();
  is_posted_ = false;
  News news{.head = std::exchange(head_, std::nullopt),
            .framing = framing_,
            .has_ended = has_ended_,
            .was_given_up = was_given_up_};
  return news;
}

bool Reply::has_ended() const {
  const std::scoped_lock lock(mutex_);
  return has_ended_;
}

void Reply::NoteUnsent(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  unsent_bytes_ = bytes;
}

size_t Reply::unsent_bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_.size() + unsent_bytes_;
}

void Reply::MarkGone() {
  std::function<void()> callback;
  {
    const std::scoped_lock lock(mutex_);
    is_gone_ = true;
    head_.reset();
    bytes_ = {};
    if (!has_ended_) callback.swap(on_gone_);
  }
  if (callback) callback();
}

void Reply::Respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  QUIRE_CHECK(!has_begun_, "a second answer to one request");
  has_begun_ = true;
  framing_.is_stream = false;
  if (!is_gone_) head_ = std::move(response);
  End(/*was_given_up=*/false, std::move(lock));
}

void Reply::BeginStream(HttpResponse head) {
  std::unique_lock lock(mutex_);
  QUIRE_CHECK(!has_begun_, "a second answer to one request");
  has_begun_ = true;
  framing_.is_stream = true;
  if (is_gone_) return;
  AddPiece(head.body);
  head.body.clear();
  head_ = std::move(head);
  Notify(std::move(lock));
}

void Reply::Write(std::string_view bytes) {
  std::unique_lock lock(mutex_);
  QUIRE_CHECK(framing_.is_stream && !has_ended_, "a piece outside a stream");
  if (is_gone_) return;
  AddPiece(bytes);
  Notify(std::move(lock));
}

void Reply::EndStream() {
  std::unique_lock lock(mutex_);
  QUIRE_CHECK(framing_.is_stream && !has_ended_, "the end of no stream");
  if (!is_gone_ && !framing_.is_head && !framing_.is_http10) bytes_.append(kLastChunk);
  End(/*was_given_up=*/false, std::move(lock));
}

void Reply::OnGone(std::function<void()> callback) {
  {
    const std::scoped_lock lock(mutex_);
    if (has_ended_) return;
    if (!is_gone_) {
      on_gone_.swap(callback);
      return;
    }
  }
  if (callback) callback();
}

void Reply::GiveUp() {
  std::unique_lock lock(mutex_);
  if (has_ended_) return;
  if (has_begun_) return End(/*was_given_up=*/true, std::move(lock));
  lock.unlock();
  ApiError error{
      .status = 500, .message = "the server gave this request up", .type = "server_error"};
  Respond({.status = error.status, .body = ToJson(error)});
}

void Reply::End(bool was_given_up, std::unique_lock<std::mutex> lock) {
  has_ended_ = true;
  was_given_up_ = was_given_up;
  // Ends outside the lock: it may hold what ends other things.
  const std::function<void()> dropped = std::exchange(on_gone_, nullptr);
  Notify(std::move(lock));
}

void Reply::Notify(std::unique_lock<std::mutex> lock) {
  if (is_gone_ || std::exchange(is_posted_, true)) return;
  lock.unlock();
  network_->Post([self = shared_from_this()] { self->on_news_(); });
}

void Reply::AddPiece(std::string_view bytes) {
  if (framing_.is_head) return;
  if (framing_.is_http10) {
    bytes_.append(bytes);
  } else {
    AppendChunk(bytes_, bytes);
  }
}

}  // namespace quire
