// The answer of one request on its way from whoever answers to the connection.
//
// A mailbox with two sides. The answering side (any thread, HttpExchange's rules) puts in a head,
// pieces and an end; the connection (network thread) is woken once for all that has gathered and
// takes it out. Neither side needs the other to live: what comes after the client has gone is
// dropped.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/http_exchange.h"
#include "server/http/http_wire.h"
#include "server/http/network_queue.h"

namespace quire {

class Reply : public std::enable_shared_from_this<Reply> {
 public:
  // on_news is called on the network thread when there is something to take.
  Reply(AnswerFraming framing, std::shared_ptr<NetworkQueue> network,
        std::function<void()> on_news);

  // For the answering side; gives the reply up when it goes.
  std::shared_ptr<HttpExchange> MakeExchange();

  // The connection's side.
  struct News {
    std::optional<HttpResponse> head{};
    AnswerFraming framing{};  // of the head
    bool has_ended = false;
    bool was_given_up = false;  // in the middle of a stream: there is no right end
  };
  // Pieces, in their framing, replace what `bytes` held; its memory is used again.
  News Take(std::string& bytes);
  // Once true, the client has its answer as far as OnGone is concerned.
  bool has_ended() const;
  void MarkGone();
  // Bytes that were taken and that the client has not.
  void NoteUnsent(size_t bytes);

 private:
  class Exchange;

  void Respond(HttpResponse response);
  void BeginStream(HttpResponse head);
  void Write(std::string_view bytes);
  void EndStream();
  void OnGone(std::function<void()> callback);
  void GiveUp();
  void End(bool was_given_up, std::unique_lock<std::mutex> lock);
  void Notify(std::unique_lock<std::mutex> lock);
  void AddPiece(std::string_view bytes);
  size_t unsent_bytes() const;

  const std::shared_ptr<NetworkQueue> network_;
  const std::function<void()> on_news_;

  mutable std::mutex mutex_;  // of all that follows
  AnswerFraming framing_;
  std::optional<HttpResponse> head_;
  std::string bytes_;
  size_t unsent_bytes_ = 0;  // that the connection has taken
  std::function<void()> on_gone_;
  bool has_begun_ = false;
  bool has_ended_ = false;
  bool was_given_up_ = false;
  bool is_gone_ = false;
  bool is_posted_ = false;  // a wake-up is under way
};

}  // namespace quire
