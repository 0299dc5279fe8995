#include "server/server_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace quire {
namespace {

// A log whose lines go through a pipe of the system's usual 64 KiB.
class PipedLog {
 public:
  explicit PipedLog(LogOptions options = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = ends[0];
    writer_ = ends[1];
    options.descriptor = writer_;
    log_.emplace(options);
  }
  ~PipedLog() {
    log_.reset();
    close(writer_);
    if (reader_ >= 0) close(reader_);
  }

  ServerLog& operator*() { return *log_; }
  ServerLog* operator->() { return &*log_; }
  void EndLog() { log_.reset(); }
  void CloseReader() {
    close(reader_);
    reader_ = -1;
  }

  // What there is, until nothing more comes for a while.
  std::string Read(int patience_ms = 200) {
    std::string text;
    std::array<char, 65536> piece{};
    pollfd waiting{.fd = reader_, .events = POLLIN, .revents = 0};
    while (poll(&waiting, 1, patience_ms) == 1) {
      const ssize_t count = read(reader_, piece.data(), piece.size());
      if (count <= 0) break;
      text.append(piece.data(), static_cast<size_t>(count));
    }
    return text;
  }
  // All lines, after the log has ended.
  std::vector<std::string> Lines() {
    EndLog();
    std::vector<std::string> lines;
    std::string text = Read(0);
    for (size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      lines.push_back(text.substr(0, end));
    }
    EXPECT_EQ(text, "") << "after the last newline";
    return lines;
  }

 private:
  int reader_ = -1;
  int writer_ = -1;
  std::optional<ServerLog> log_;
};

boost::json::object Parse(const std::string& line) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(line, error);
  EXPECT_FALSE(error) << line;
  return value.is_object() ? value.as_object() : boost::json::object{};
}

TEST(ServerLog, WritesAnObjectALine) {
  PipedLog log;
  log->Write(LogLevel::kInfo, "request",
             {{"id", "r-1"}, {"status", int64_t{200}}, {"ms", 1.5}, {"stream", true}});
  log->Write(LogLevel::kError, "failed", {});
  const auto lines = log.Lines();
  ASSERT_EQ(lines.size(), 2u);
  const boost::json::object first = Parse(lines[0]);
  EXPECT_EQ(first.at("level"), "info");
  EXPECT_EQ(first.at("event"), "request");
  EXPECT_EQ(first.at("id"), "r-1");
  EXPECT_EQ(first.at("status"), 200);
  EXPECT_EQ(first.at("ms"), 1.5);
  EXPECT_EQ(first.at("stream"), true);
  EXPECT_EQ(Parse(lines[1]).at("level"), "error");
}

TEST(ServerLog, TellsTheTimeInUtcToTheMillisecond) {
  PipedLog log;
  log->Write(LogLevel::kInfo, "x", {});
  const std::string time(Parse(log.Lines().at(0)).at("time").as_string());
  ASSERT_EQ(time.size(), 24u) << time;
  EXPECT_EQ(time[10], 'T');
  EXPECT_EQ(time[19], '.');
  EXPECT_EQ(time[23], 'Z');
  tm parsed{};
  ASSERT_NE(strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parsed), nullptr);
  EXPECT_NEAR(static_cast<double>(timegm(&parsed)), static_cast<double>(std::time(nullptr)), 5);
}

TEST(ServerLog, WritesWordsOnATerminal) {
  PipedLog log({.as_json = false});
  log->Write(LogLevel::kWarning, "request",
             {{"path", "/v1/models"}, {"why", "two words"}, {"count", int64_t{-3}}, {"no", false}});
  const std::string line = log.Lines().at(0);
  EXPECT_EQ(line.substr(23),
            "Z warning request path=/v1/models why=\"two words\" count=-3 no=false");
}

TEST(ServerLog, LeavesOutWhatIsBelowItsLevel) {
  PipedLog log({.level = LogLevel::kWarning});
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    log->Write(level, "x", {});
  }
  EXPECT_EQ(log.Lines().size(), 2u);
  PipedLog silent({.level = LogLevel::kOff});
  silent->Write(LogLevel::kError, "x", {});
  EXPECT_EQ(silent.Lines().size(), 0u);
}

TEST(ServerLog, KeepsALineWholeWhateverItsFieldsHold) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const bool as_json : {true, false}) {
    PipedLog log({.as_json = as_json});
    log->Write(LogLevel::kInfo, "a\nb",
               {{"value", all_bytes},
                {"\x1b[31m",
                 "\xC2\x9B"
                 "31m"}});
    const auto lines = log.Lines();
    ASSERT_EQ(lines.size(), 1u);
    for (const unsigned char byte : lines[0]) {
      EXPECT_GE(byte, 0x20);
      EXPECT_NE(byte, 0x7F);
    }
    EXPECT_EQ(lines[0].find("\xC2\x9B"), std::string::npos);
    if (as_json) {
      const boost::json::object line = Parse(lines[0]);
      EXPECT_EQ(line.at("event"), "a\nb");
      EXPECT_EQ(std::string(line.at("value").as_string()).substr(0, 128), all_bytes.substr(0, 128));
    }
  }
}

TEST(ServerLog, WritesNullForWhatIsNoNumber) {
  PipedLog log;
  log->Write(LogLevel::kInfo, "x",
             {{"a", std::numeric_limits<double>::quiet_NaN()},
              {"b", std::numeric_limits<double>::infinity()}});
  const boost::json::object line = Parse(log.Lines().at(0));
  EXPECT_TRUE(line.at("a").is_null());
  EXPECT_TRUE(line.at("b").is_null());
}

TEST(ServerLog, CutsALongValue) {
  PipedLog log;
  log->Write(LogLevel::kInfo, "x", {{"prompt", std::string(10 << 20, 'p')}});
  const boost::json::object line = Parse(log.Lines().at(0));
  EXPECT_EQ(line.at("prompt").as_string().size(), kMaxLoggedBytes + 3);
}

TEST(ServerLog, KnowsWhetherTextsAreShown) {
  EXPECT_FALSE(PipedLog()->shows_text());
  EXPECT_TRUE(PipedLog({.shows_text = true})->shows_text());
}

double MillisecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  return spent.count();
}

// 5,000 lines of 1 KiB into a pipe of 64 KiB that nobody reads.
TEST(ServerLog, DoesNotWaitForASlowReader) {
  PipedLog log;
  const std::string value(1000, 'v');
  double longest_ms = 0;
  for (int i = 0; i < 5'000; ++i) {
    longest_ms = std::max(longest_ms, MillisecondsOf([&] {
                            log->Write(LogLevel::kInfo, "x", {{"i", int64_t{i}}, {"v", value}});
                          }));
  }
  EXPECT_LT(longest_ms, 1000);
  // The end does not wait for it either.
  EXPECT_LT(MillisecondsOf([&] { log.EndLog(); }), 5000);
}

TEST(ServerLog, TellsHowManyLinesWereLost) {
  PipedLog log;
  constexpr int64_t kLines = 5'000;
  const std::string value(1000, 'v');
  for (int64_t i = 0; i < kLines; ++i) log->Write(LogLevel::kInfo, "x", {{"v", value}});
  std::string text = log.Read();
  log->Write(LogLevel::kInfo, "last", {});
  text += log.Read();
  int64_t written = 0;
  int64_t lost = 0;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const boost::json::object line = Parse(text.substr(begin, end - begin));
    if (line.at("event") == "x") ++written;
    if (line.at("event") == "log_lines_lost") lost += line.at("count").as_int64();
  }
  EXPECT_NE(text.find("\"last\""), std::string::npos);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(written + lost, kLines);
  EXPECT_LE(written, kLines - 1000);
}

TEST(ServerLog, OutlivesItsReader) {
  PipedLog log;
  log.CloseReader();
  for (int i = 0; i < 100; ++i) log->Write(LogLevel::kInfo, "x", {});
  EXPECT_LT(MillisecondsOf([&] { log.EndLog(); }), 5000);
}

TEST(ServerLog, TakesLinesFromSeveralThreads) {
  PipedLog log;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int line = 0; line < 100; ++line) log->Write(LogLevel::kInfo, "x", {{"thread", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = log.Lines();
  EXPECT_EQ(lines.size(), 400u);
  for (const std::string& line : lines) Parse(line);
}

}  // namespace
}  // namespace quire
