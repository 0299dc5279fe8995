// `quire top`: what a running server does, each second.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "cli/interrupt.h"
#include "cli/top/full_screen.h"
#include "cli/top/server_link.h"
#include "cli/top/server_look.h"
#include "cli/top/top_view.h"
#include "cli/verbs.h"

namespace quire {
namespace {

constexpr int kLogColumns = 80;

struct TopFlags {
  ServerAddress address{.url = "http://127.0.0.1:8080"};
  double interval_s = 1;
  bool once = false;
  bool json = false;
};

double NowSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Looks at a server again and again, and keeps the last two looks.
class Watch {
 public:
  Watch(const TopFlags& flags, std::function<bool()> interrupted)
      : link_(flags.address, std::move(interrupted)) {}

  // On an error the looks stay as they are; rates begin anew with the next success.
  Status Look() {
    Result<ServerLook> look = Ask();
    if (!look.ok()) {
      has_gap_ = true;
      return look.error();
    }
    before_ = has_gap_ ? std::nullopt : std::move(now_);
    now_ = std::move(*look);
    has_gap_ = false;
    return {};
  }
  bool has_look() const { return now_.has_value(); }
  // After has_look().
  TopView view() const {
    return {.url = url(), .now = &*now_, .before = before_ ? &*before_ : nullptr};
  }
  const std::string& url() const { return link_.address().url; }

 private:
  Result<ServerLook> Ask() {
    QUIRE_ASSIGN_OR_RETURN(const std::string cache, link_.Get("/quire/cache"));
    QUIRE_ASSIGN_OR_RETURN(const std::string metrics, link_.Get("/metrics"));
    const double at_s = NowSeconds();
    QUIRE_ASSIGN_OR_RETURN(ServerLook look, ReadLook(cache, metrics));
    look.at_s = at_s;
    return look;
  }

  ServerLink link_;
  std::optional<ServerLook> now_;
  std::optional<ServerLook> before_;  // the one before, where the server has answered since
  bool has_gap_ = false;
};

// What passes by itself: the server is gone, busy or still loading.
bool MayPass(const Status& status) { return status.error().code == ErrorCode::kIo; }

// Until the time has come or Ctrl-C.
void SleepUntil(double at_s) {
  while (!Interrupted() && NowSeconds() < at_s) {
    const double left_s = std::min(at_s - NowSeconds(), 0.1);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(left_s, 0.0)));
  }
}

Status Print(const TopView& view, bool json) {
  if (json) {
    fmt::print("{}\n", TopJson(view));
  } else {
    for (const std::string& line : TopLines(view, kLogColumns)) fmt::print("{}\n", line);
  }
  return FlushOutput();
}

// Two looks, so that there are rates, and what they say.
Status ShowOnce(const TopFlags& flags) {
  Watch watch(flags, Interrupted);
  QUIRE_RETURN_IF_ERROR(watch.Look());
  SleepUntil(NowSeconds() + flags.interval_s);
  if (Interrupted()) return MakeError(ErrorCode::kInterrupted, "interrupted");
  QUIRE_RETURN_IF_ERROR(watch.Look());
  return Print(watch.view(), flags.json);
}

// For logs and pipes: a text each interval, until Ctrl-C.
Status ShowLog(const TopFlags& flags) {
  Watch watch(flags, Interrupted);
  for (double next_s = NowSeconds(); !Interrupted();) {
    const Status status = watch.Look();
    if (Interrupted()) break;
    if (status.ok()) {
      QUIRE_RETURN_IF_ERROR(Print(watch.view(), flags.json));
      if (!flags.json) fmt::print("\n");
    } else if (MayPass(status)) {
      fmt::print(stderr, "quire: {}\n", status.error().message);
    } else {
      return status;
    }
    next_s = std::max(next_s + flags.interval_s, NowSeconds());
    SleepUntil(next_s);
  }
  return {};
}

std::vector<std::string> ScreenLines(const Watch& watch, const Status& status, double interval_s,
                                     int columns) {
  std::vector<std::string> lines;
  if (watch.has_look()) {
    lines = TopLines(watch.view(), columns);
  } else {
    lines = {fmt::format("quire top  {}", watch.url()), ""};
  }
  if (status.ok()) {
    lines[1] = fmt::format("every {:g} s; q ends", interval_s);
  } else {
    lines[1] = fmt::format("NO ANSWER, asked again every {:g} s{}; q ends", interval_s,
                           watch.has_look() ? "; the figures are older" : "");
    lines.insert(lines.begin() + 2, "(" + status.error().message + ")");
  }
  return lines;
}

Status ShowScreen(const TopFlags& flags) {
  FullScreen screen;
  Watch watch(flags, [&screen] { return screen.IsEndAsked(); });
  for (double next_s = NowSeconds();;) {
    const Status status = watch.Look();
    if (screen.IsEndAsked()) return {};
    if (!status.ok() && !MayPass(status)) return status;
    next_s = std::max(next_s + flags.interval_s, NowSeconds());
    for (;;) {
      screen.Draw(ScreenLines(watch, status, flags.interval_s, screen.columns()));
      const FullScreen::Event event = screen.Wait(std::max(0.0, next_s - NowSeconds()));
      if (event == FullScreen::Event::kEnd) return {};
      if (event == FullScreen::Event::kTime) break;
    }
  }
}

Status Top(TopFlags flags) {
  QUIRE_ASSIGN_OR_RETURN(flags.address.url, ServerUrlOf(flags.address.url));
  if (flags.address.api_key.empty()) {
    const char* key = std::getenv("QUIRE_API_KEY");
    if (key != nullptr) flags.address.api_key = key;
  }
  if (flags.once) return ShowOnce(flags);
  if (flags.json || !FullScreen::IsPossible()) return ShowLog(flags);
  return ShowScreen(flags);
}

}  // namespace

void AddTopVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "top",
      "What a running server does, each second: requests, speed, the KV cache and its tiers");
  auto flags = std::make_shared<TopFlags>();
  verb->add_option("URL", flags->address.url, "the server's address")->capture_default_str();
  verb->add_option("--api-key", flags->address.api_key,
                   "an admin's key, where the server has keys (default: QUIRE_API_KEY)");
  verb->add_option("--cacert", flags->address.ca_file,
                   "a PEM file of certificates to trust, for https (default: the system's)")
      ->check(CLI::ExistingFile);
  verb->add_option("--interval", flags->interval_s, "seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  verb->add_flag("--once", flags->once, "two looks, one text, and the end");
  verb->add_flag("--json", flags->json, "a JSON object a line instead of the screen, for programs");
  verb->callback([flags, &exit_code] { exit_code = Report(Top(*flags)); });
}

}  // namespace quire
