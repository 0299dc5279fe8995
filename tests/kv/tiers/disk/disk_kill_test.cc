// Processes that are killed at any moment, and processes side by side. QUIRE_KILLS sets how many.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "kv/tiers/disk/disk_fixture.h"

namespace quire {
namespace {

using testing::DiskStore;

constexpr int kPrompts = 30;
constexpr int kBlocksEach = 5;

std::vector<StoredBlock> Universe(const RecordCodec& codec) {
  std::vector<StoredBlock> blocks;
  for (int i = 0; i < kPrompts; ++i) {
    for (const auto& block : testing::Chain(codec, 1000 * i, kBlocksEach)) blocks.push_back(block);
  }
  return blocks;
}

// Exit codes of a child.
constexpr int kRight = 0;
constexpr int kWrongBlock = 3;
constexpr int kCannotOpen = 4;

// Stores and loads at random until it is killed; tells through the pipe what it has stored.
[[noreturn]] void UseUntilKilled(DiskStore& store, const std::vector<StoredBlock>& blocks,
                                 uint32_t seed, int pipe) {
  if (!store.TryOpen().ok()) ::_exit(kCannotOpen);
  std::mt19937 random(seed);
  std::vector<std::byte> payload(testing::kPayloadBytes);
  for (;;) {
    const auto at = static_cast<int32_t>(random() % blocks.size());
    const StoredBlock& block = blocks[static_cast<size_t>(at)];
    const auto right = testing::PayloadOf(store.codec(), block);
    if (random() % 2 == 0) {
      if (store.tier().Store(block, right, testing::Soon()) == StoreOutcome::kStored) {
        if (::write(pipe, &at, sizeof(at)) != sizeof(at)) ::_exit(kRight);
      }
    } else {
      const BlockLoad load = {.block = block, .payload = payload};
      store.tier().Load({&load, 1}, testing::Soon(), nullptr, [&](size_t, RecordFault fault) {
        if (fault == RecordFault::kNone && payload != right) ::_exit(kWrongBlock);
      });
    }
    if (random() % 50 == 0) (void)store.tier().Flush(testing::Soon());
  }
}

// The last number that was written to the pipe; -1 for none.
int32_t LastOf(int pipe) {
  int32_t last = -1;
  int32_t next = 0;
  while (::read(pipe, &next, sizeof(next)) == sizeof(next)) last = next;
  return last;
}

TEST(DiskKill, NothingWrongIsServedAfterAKill) {
  const char* text = std::getenv("QUIRE_KILLS");
  const int num_kills = text == nullptr ? 20 : std::atoi(text);
  DiskStore store;
  store.options.max_bytes = 350000;  // half of the blocks
  const auto blocks = Universe(store.codec());
  std::mt19937 random(7);
  int num_reported = 0;
  for (int i = 0; i < num_kills && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[0]);
      UseUntilKilled(store, blocks, static_cast<uint32_t>(i), pipe[1]);
    }
    ::close(pipe[1]);
    for (int wait = static_cast<int>(random() % 8); wait >= 0; --wait) {
      ::usleep(static_cast<useconds_t>(random() % 8000));
      EXPECT_LE(testing::BytesIn(store.path()), store.options.max_bytes);
    }
    ::kill(child, SIGKILL);
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how)) << "ended with " << WEXITSTATUS(how);
    const int32_t last = LastOf(pipe[0]);
    ::close(pipe[0]);

    store.Open();
    EXPECT_LE(testing::BytesIn(store.path()), store.options.max_bytes);
    if (last >= 0) {
      ++num_reported;
      EXPECT_EQ(store.Load(blocks[static_cast<size_t>(last)]), RecordFault::kNone);
    }
    const int num_loaded = store.NumLoadable(blocks);
    EXPECT_EQ(num_loaded, store.tier().status().num_records);
    // What was being written is not listed: there is nothing to find fault with.
    EXPECT_EQ(testing::NumFaults(store.tier()), 0);
    store.Close();
  }
  EXPECT_GT(num_reported, num_kills / 3);
}

// Loads at random while another process writes every slot over and over.
[[noreturn]] void ReadBeside(DiskStore& store, const std::vector<StoredBlock>& blocks, int pipe) {
  double now_s = 1;
  store.options.read_only = true;
  store.options.now_s = [&] { return now_s += 0.05; };
  if (!store.TryOpen().ok()) ::_exit(kCannotOpen);
  std::mt19937 random(3);
  std::array<int64_t, 3> counts{};  // right, absent, faults
  std::vector<std::byte> payload(testing::kPayloadBytes);
  for (int i = 0; i < 4000; ++i) {
    const StoredBlock& block = blocks[random() % blocks.size()];
    const BlockLoad load = {.block = block, .payload = payload};
    store.tier().Load({&load, 1}, testing::Soon(), nullptr, [&](size_t, RecordFault fault) {
      if (fault == RecordFault::kNone && payload != testing::PayloadOf(store.codec(), block)) {
        ::_exit(kWrongBlock);
      }
      ++counts[fault == RecordFault::kNone ? 0 : fault == RecordFault::kAbsent ? 1 : 2];
    });
  }
  if (::write(pipe, counts.data(), sizeof(counts)) != sizeof(counts)) ::_exit(kCannotOpen);
  ::_exit(kRight);
}

TEST(DiskKill, AReaderBesideAWriterReadsNothingWrong) {
  DiskStore store;
  store.options.max_bytes = 200000;
  store.Open();
  const auto blocks = Universe(store.codec());
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    DiskStore reader;
    reader.options = store.options;
    ReadBeside(reader, blocks, pipe[1]);
  }
  int how = 0;
  std::mt19937 random(5);
  while (::waitpid(child, &how, WNOHANG) == 0) store.Store(blocks[random() % blocks.size()]);
  ASSERT_TRUE(WIFEXITED(how));
  ASSERT_EQ(WEXITSTATUS(how), kRight);
  std::array<int64_t, 3> counts{};
  ASSERT_EQ(::read(pipe[0], counts.data(), sizeof(counts)), static_cast<ssize_t>(sizeof(counts)));
  ::close(pipe[0]);
  ::close(pipe[1]);
  std::printf("right %lld, absent %lld, faults %lld\n", static_cast<long long>(counts[0]),
              static_cast<long long>(counts[1]), static_cast<long long>(counts[2]));
  EXPECT_GT(counts[0], 50);
  // Only a slot that was written with the same block again looks like one.
  EXPECT_LT(counts[2], 40);
}

TEST(DiskKill, AnotherProcessIsNoSecondWriter) {
  DiskStore store;
  store.Open();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto tier = OpenDiskTier(store.shared_codec(), store.options);
    const bool names_us =
        !tier.ok() && tier.error().code == ErrorCode::kIo &&
        tier.error().message.find(std::to_string(::getppid())) != std::string::npos;
    ::_exit(names_us ? kRight : kCannotOpen);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == kRight);
}

}  // namespace
}  // namespace quire
