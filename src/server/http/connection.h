// One client's connection: the order of things, whatever carries its bytes.
//
//   handshake -> idle -> head -> body -> answering -> idle ... -> closing -> closed
//
// Invariants:
// 1. At most one read and one write are under way. Reading goes on while an answer is under way:
//    that is how a client that goes away is noticed; what it sends ahead waits in a bounded buffer.
// 2. The next request is read when the answer before has left.
// 3. All that waits to be sent goes out in one write; what is added meanwhile goes with the next.
// 4. No timer of its own: whoever owns connections calls Tick every now and then.
// Network thread alone. The carrier (socket_connection.cc) keeps the connection alive while an
// operation is under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_server.h"
#include "server/http/network_queue.h"
#include "server/http/reply.h"
#include "server/http/request_reader.h"

namespace quire {

class Connection;

// What the connections of a server share.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;

  virtual const HttpOptions& options() const = 0;
  virtual bool is_draining() const = 0;
  virtual const std::shared_ptr<NetworkQueue>& queue() const = 0;
  virtual std::string_view date() = 0;
  virtual void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // Accounts for bytes of bodies that are being received; false when they are too many in all.
  virtual bool TakeBodyBytes(size_t count) = 0;
  virtual void ReturnBodyBytes(size_t count) = 0;
  // Once, last of all.
  virtual void OnClosed(Connection& connection) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The host outlives its connections' being open.
  Connection(ConnectionHost& host, std::string remote);
  virtual ~Connection() = default;

  void Start(bool needs_handshake);
  // Ends what has taken too long.
  void Tick(TimePoint now);
  // No request is begun any more.
  void Drain();
  // At once.
  void Close();

 protected:
  enum class ReadResult : uint8_t { kBytes, kEnd, kLost };

  // The carrier's part. Each Start... leads to one On..., later; StartShutdown also from
  // within.
  virtual void StartHandshake() = 0;
  virtual void StartRead(char* data, size_t size) = 0;
  virtual void StartWrite(std::string_view bytes) = 0;
  // Tells the client that nothing more comes.
  virtual void StartShutdown() = 0;
  virtual void CloseSocket() = 0;
  // Whether the client has closed or reset, without reading.
  virtual bool IsPeerGone() const = 0;

  void OnHandshake(bool is_ok);
  void OnRead(ReadResult result, size_t count);
  void OnWrite(bool is_ok, size_t count);
  void OnShutdown();

 private:
  enum class Phase : uint8_t {
    kHandshake,
    kIdle,  // not a byte of a request yet
    kHead,
    kBody,
    kAnswering,
    kClosing,  // nothing more is sent; what comes is thrown away
    kClosed,
  };

  bool is_reading_requests() const {
    return phase_ == Phase::kIdle || phase_ == Phase::kHead || phase_ == Phase::kBody;
  }
  size_t unsent_bytes() const { return output_.size() + sending_.size() - sent_bytes_; }
  std::string_view unread() const {
    return {input_.data() + input_begin_, input_end_ - input_begin_};
  }

  void BeginRequest(std::chrono::milliseconds first_byte_timeout);
  void ReadOn();
  void OnBytes(size_t count);
  void OnInputEnd();
  // Makes requests of the bytes that are there.
  void Process();
  void OnProgress(ReadProgress progress);
  void Dispatch();
  // Answers with an error; the connection closes after it.
  void Refuse(const ApiError& error);
  void TakeNews();
  void AppendAnswerHead(const HttpResponse& head, AnswerFraming framing);
  void WriteOn();
  void FinishAnswer();
  void BeginClosing();
  void SetDeadline(std::chrono::milliseconds timeout);
  void ReturnBodyBytes();

  ConnectionHost& host_;
  const std::string remote_;
  Phase phase_ = Phase::kHandshake;
  std::optional<TimePoint> deadline_;  // of the phase

  std::vector<char> input_;  // unread bytes [input_begin_, input_end_); a read fills what follows
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  bool is_reading_ = false;
  bool has_input_ended_ = false;
  bool discards_input_ = false;
  bool lingers_ = false;  // throws input away until the client has seen why
  size_t discarded_bytes_ = 0;

  std::optional<RequestReader> reader_;
  size_t body_bytes_ = 0;  // accounted for
  std::shared_ptr<Reply> reply_;
  bool is_answer_complete_ = false;  // it is in output_ and sending_
  bool closes_after_answer_ = false;

  std::string output_;
  std::string sending_;
  std::string pieces_;  // keeps its memory between two Takes
  size_t sent_bytes_ = 0;
  bool is_writing_ = false;
  TimePoint write_deadline_{};
};

}  // namespace quire
