// The file of a trace: what it holds, and a disk that fails or falls behind.
#include "trace/trace_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/scratch_directory.h"
#include "trace/event_json.h"
#include "trace/sample_events.h"
#include "trace/trace_reader.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<TraceFile> Make(const std::filesystem::path& path, TraceFileOptions options = {}) {
  auto file = TraceFile::Create(path, options);
  EXPECT_TRUE(file.ok()) << file.error().message;
  return std::move(file).value();
}

TEST(TraceFile, HoldsEveryEventInOrder) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "trace.jsonl";
  std::string expected;
  {
    const auto file = Make(path, {.detail = {.blocks = true}});
    for (int round = 0; round < 200; ++round) {
      for (const TraceEvent& event : testing::SampleEvents()) {
        file->Add(event);
        expected += EventAsJson(event) + "\n";
      }
    }
    EXPECT_TRUE(file->Close().ok());
  }
  EXPECT_EQ(ReadFile(path), expected);
}

TEST(TraceFile, IsWrittenWhileTheRunGoesOn) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "trace.jsonl";
  const auto file = Make(path);
  file->Add(testing::SampleRun());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ReadFile(path).empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(ReadFile(path), EventAsJson(testing::SampleRun()) + "\n");
}

TEST(TraceFile, BlocksAreLeftOutWhereNobodyAskedForThem) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "trace.jsonl";
  const auto file = Make(path);
  file->Add(BlockEvent{});
  file->Add(RequestEvent{});
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(ReadFile(path), EventAsJson(RequestEvent{}) + "\n");
}

TEST(TraceFile, IsReadableByItsOwnerAlone) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "trace.jsonl";
  const auto file = Make(path);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(TraceFile, AFullDiskIsToldAtTheEndAndStallsNobody) {
  const auto file = Make("/dev/full");
  for (int i = 0; i < 20'000; ++i) file->Add(testing::SampleRun());
  const Status status = file->Close();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("/dev/full: No space left"));
  EXPECT_EQ(file->Close().error().message, status.error().message);
}

TEST(TraceFile, ADirectoryThatIsNotThereIsToldAtOnce) {
  const auto file = TraceFile::Create("/nonexistent/trace.jsonl", {});
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message, HasSubstr("/nonexistent/trace.jsonl"));
}

TEST(TraceFile, AnEarlierTraceIsReplacedByTheFirstEventAndNotBefore) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "trace.jsonl";
  std::string earlier;
  {
    const auto file = Make(path);
    for (int i = 0; i < 3; ++i) {
      file->Add(testing::SampleRun());
      earlier += EventAsJson(testing::SampleRun()) + "\n";
    }
  }
  EXPECT_TRUE(Make(path)->Close().ok());
  EXPECT_EQ(ReadFile(path), earlier) << "no run began";
  const auto file = Make(path);
  file->Add(testing::SampleRun());
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(ReadFile(path), EventAsJson(testing::SampleRun()) + "\n");
}

TEST(TraceFile, AFileThatIsNoTraceIsRefusedAndKept) {
  const ScratchDirectory directory;
  for (const std::string content : {"GGUF of great worth", "{", R"({"event":"request"})"}) {
    const auto path = directory.path() / "model.gguf";
    std::ofstream(path) << content;
    const auto file = TraceFile::Create(path, {});
    ASSERT_FALSE(file.ok()) << content;
    EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(file.error().message, HasSubstr("model.gguf is there and is not a trace"));
    EXPECT_EQ(ReadFile(path), content);
  }
}

TEST(TraceFile, ASecondWriterIsRefusedUntilTheFirstHasEnded) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "trace.jsonl";
  {
    const auto first = Make(path);
    first->Add(testing::SampleRun());
    const auto second = TraceFile::Create(path, {});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, ErrorCode::kIo);
    EXPECT_THAT(second.error().message, HasSubstr("another process writes the trace"));
    EXPECT_TRUE(first->Close().ok());
  }
  EXPECT_EQ(ReadFile(path), EventAsJson(testing::SampleRun()) + "\n");
  EXPECT_TRUE(Make(path)->Close().ok());
}

// A pipe that nobody reads for a while is a disk that falls behind.
TEST(TraceFile, WhatASlowDiskCannotTakeIsDroppedAndCounted) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  constexpr int kEvents = 20'000;
  const auto file = Make(path, {.max_buffer_bytes = 100'000});
  for (int i = 0; i < kEvents; ++i) file->Add(RequestEvent{.ms = 1.0 * i, .request = i});
  std::string text;
  std::atomic<bool> is_written = false;
  std::thread drain([&] {
    std::vector<char> bytes(1 << 16);
    while (true) {
      const bool was_written = is_written;
      const ssize_t count = ::read(reader, bytes.data(), bytes.size());
      if (count > 0) {
        text.append(bytes.data(), static_cast<size_t>(count));
      } else if (was_written) {
        break;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });
  const Status status = file->Close();
  is_written = true;
  drain.join();
  ::close(reader);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("too slow"));
  int64_t num_events = 0;
  int64_t num_dropped = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos) << "lines are whole";
    const auto event = EventFromJson(text.substr(begin, end - begin));
    ASSERT_TRUE(event.ok()) << event.error().message;
    if (const auto* dropped = std::get_if<DroppedEvent>(&*event)) {
      num_dropped += dropped->count;
    } else {
      EXPECT_EQ(std::get<RequestEvent>(*event).request, num_events + num_dropped);
      ++num_events;
    }
    begin = end + 1;
  }
  EXPECT_GT(num_dropped, 0);
  EXPECT_EQ(num_events + num_dropped, kEvents);
}

}  // namespace
}  // namespace quire
