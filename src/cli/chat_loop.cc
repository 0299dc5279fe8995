#include "cli/chat_loop.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <fstream>
#include <optional>

#include "cli/answer_report.h"
#include "cli/interrupt.h"
#include "cli/terminal_input.h"
#include "engine/chat.h"
#include "engine/generation.h"

namespace quire {
namespace {

constexpr std::string_view kHelp =
    "/reset          forget the conversation\n"
    "/system TEXT    start over with this system message\n"
    "/save FILE      write the conversation as JSON\n"
    "/stats          figures of the last answer\n"
    "/exit           leave (or Ctrl-D)\n"
    "Ctrl-C stops an answer. A paste of many lines is one message.\n";

class Chat {
 public:
  Chat(Engine& engine, const Request& request, std::string system)
      : engine_(engine), request_(request), system_(std::move(system)) {
    Reset();
  }

  void Run() {
    TerminalInput input;
    fmt::print("{} with {} tokens of context; /help lists the commands\n",
               engine_.model().config().name, engine_.context_length());
    for (;;) {
      const TerminalInput::Read read = input.ReadMessage("> ");
      if (read.outcome == TerminalInput::Outcome::kEnd) break;
      if (read.outcome == TerminalInput::Outcome::kInterrupted) {
        fmt::print("\n(Ctrl-D or /exit leaves)\n");
        continue;
      }
      if (read.text.starts_with('/')) {
        if (!Command(read.text)) return;
      } else if (!read.text.empty()) {
        Answer(read.text);
      }
    }
    fmt::print("\n");
  }

 private:
  // Returns false to leave.
  bool Command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/exit") return false;
    if (name == "/help") {
      fmt::print("{}", kHelp);
    } else if (name == "/reset") {
      Reset();
    } else if (name == "/system") {
      system_ = argument;
      Reset();
    } else if (name == "/save") {
      Save(argument);
    } else if (name == "/stats") {
      fmt::print("{}\n", last_stats_.empty() ? "no answer so far" : last_stats_);
    } else {
      fmt::print("no command {}; /help lists them\n", name);
    }
    return true;
  }

  void Reset() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }

  void Answer(const std::string& text) {
    messages_.push_back({"user", text});
    const Status status = AnswerLast();
    if (!status.ok()) {
      messages_.pop_back();
      fmt::print(stderr, "quire: {}\n", status.error().message);
      if (status.error().code == ErrorCode::kContextLength) {
        fmt::print(stderr, "quire: the message was not added; /reset forgets the conversation\n");
      }
    }
  }

  Status AnswerLast() {
    Request request = request_;
    QUIRE_ASSIGN_OR_RETURN(request.prompt_pieces, RenderChat(engine_.model(), messages_));
    request.prompt = engine_.EncodePrompt(request.prompt_pieces, request.cache_salt);
    const GenerationHooks hooks{.on_text =
                                    [](std::string_view piece) {
                                      std::fwrite(piece.data(), 1, piece.size(), stdout);
                                      std::fflush(stdout);
                                    },
                                .interrupted = Interrupted};
    QUIRE_ASSIGN_OR_RETURN(const RequestResult result,
                           Generate(engine_, std::move(request), hooks));
    ClearInterrupt();
    fmt::print("\n");
    const Choice& choice = result.choices[0];
    messages_.push_back({"assistant", choice.text});
    last_stats_ = FormatStats(result, engine_);
    if (choice.finish_reason == FinishReason::kLength &&
        result.prompt_tokens + result.completion_tokens() >= engine_.context_length()) {
      fmt::print(
          stderr,
          "quire: the context of {} tokens is full: the answer ends here; /reset forgets the "
          "conversation\n",
          engine_.context_length());
    }
    return {};
  }

  void Save(const std::string& path) {
    if (path.empty()) {
      fmt::print("/save FILE: expected a file name\n");
      return;
    }
    boost::json::array messages;
    for (const Message& message : messages_) {
      messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    std::ofstream out(path);
    out << boost::json::serialize(boost::json::object{{"messages", std::move(messages)}}) << '\n';
    fmt::print("{} {}\n", out.flush() ? "saved to" : "cannot write", path);
  }

  Engine& engine_;
  const Request& request_;  // without a prompt
  std::vector<Message> messages_;
  std::string system_;
  std::string last_stats_;
};

}  // namespace

Status RunChat(Engine& engine, const Request& request, const std::string& system) {
  const auto chat_template = engine.model().chat_template();
  if (!chat_template.ok()) return chat_template.error();
  Chat(engine, request, system).Run();
  return {};
}

}  // namespace quire
