#include "server/tier_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "server/support/tier_rows.h"

namespace quire {
namespace {

using testing::DiskStatus;
using testing::RemoteStatus;

class TierWatchTest : public ::testing::Test {
 protected:
  TierWatchTest() : file_(memfd_create("log", 0)) {
    log_ = std::make_unique<ServerLog>(LogOptions{.descriptor = file_});
  }
  ~TierWatchTest() override {
    log_.reset();
    close(file_);
  }

  // All lines; the log ends.
  std::vector<boost::json::object> Lines() {
    log_.reset();
    std::string text(static_cast<size_t>(lseek(file_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    std::vector<boost::json::object> lines;
    for (size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      lines.push_back(boost::json::parse(text.substr(0, end)).as_object());
    }
    return lines;
  }
  static std::vector<TierStatus> Remote(bool is_up, double down_for_ms = 0) {
    TierStatus tier = RemoteStatus();
    tier.state = {.is_up = is_up, .down_for_ms = down_for_ms};
    if (!is_up) tier.state.reason = "connection refused";
    return {tier};
  }

  const TierWatch::Clock::time_point start_ = TierWatch::Clock::now();
  int file_;
  std::unique_ptr<ServerLog> log_;
};

TEST_F(TierWatchTest, TellsOfEachTierAtTheStart) {
  const std::vector<TierStatus> tiers = {DiskStatus(), Remote(true)[0]};
  const TierWatch watch(*log_, tiers);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("event"), "tier");
  EXPECT_EQ(lines[0].at("tier"), "disk");
  EXPECT_EQ(lines[0].at("place"), "/var/kv");
  EXPECT_EQ(lines[0].at("bytes"), 5'000);
  EXPECT_EQ(lines[0].at("max_bytes"), 9'000);
  EXPECT_EQ(lines[0].at("records"), 70);
  EXPECT_EQ(lines[0].at("latency_ms").to_number<double>(), 2);
  EXPECT_NEAR(lines[0].at("mib_per_second").to_number<double>(), 500'000.0 / (1 << 20), 0.001);
  // What is not known is not told.
  EXPECT_EQ(lines[1].at("tier"), "remote");
  for (const char* name : {"bytes", "max_bytes", "records", "latency_ms"}) {
    EXPECT_FALSE(lines[1].contains(name)) << name;
  }
}

TEST_F(TierWatchTest, TellsOfAnOutageOnceAndOfItsEnd) {
  TierWatch watch(*log_, Remote(true));
  watch.Look(Remote(false, 10), start_);
  watch.Look(Remote(false, 1'010), start_);
  watch.Look(Remote(true), start_);
  watch.Look(Remote(true), start_);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].at("event"), "tier_down");
  EXPECT_EQ(lines[1].at("level"), "warning");
  EXPECT_EQ(lines[1].at("tier"), "remote");
  EXPECT_EQ(lines[1].at("reason"), "connection refused");
  EXPECT_EQ(lines[2].at("event"), "tier_up");
  EXPECT_EQ(lines[2].at("down_for_ms").to_number<double>(), 1'010);
}

TEST_F(TierWatchTest, TellsOfATierThatIsDownFromTheBeginning) {
  const TierWatch watch(*log_, Remote(false, 5));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].at("event"), "tier_down");
}

TEST_F(TierWatchTest, LooksOnceASecondAndNeverWithoutTiers) {
  TierWatch watch(*log_, Remote(true));
  watch.Look(Remote(true), start_);
  EXPECT_FALSE(watch.IsDue(start_ + std::chrono::milliseconds(999)));
  EXPECT_TRUE(watch.IsDue(start_ + TierWatch::kInterval));
  const TierWatch without(*log_, {});
  EXPECT_FALSE(without.IsDue(start_ + std::chrono::hours(1)));
}

}  // namespace
}  // namespace quire
