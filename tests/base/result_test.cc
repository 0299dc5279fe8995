#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace quire {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return MakeError(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  QUIRE_ASSIGN_OR_RETURN(const int half, Half(value));
  QUIRE_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckQuarter(int value) {
  QUIRE_RETURN_IF_ERROR(Quarter(value));
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(Half(6).value(), 3);
  EXPECT_FALSE(Half(7).ok());
  EXPECT_EQ(Half(7).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Half(7).error().message, "7 is odd");
}

TEST(Result, MacrosHandTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_EQ(CheckQuarter(5).error().message, "5 is odd");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(4));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 4);
}

TEST(ResultDeathTest, TheValueOfAnErrorEndsTheProcess) {
  EXPECT_DEATH(static_cast<void>(Half(3).value()), "broken invariant");
  EXPECT_DEATH(static_cast<void>(Half(4).error()), "broken invariant");
}

TEST(ExitCodes, TellWhatKindOfThingWentWrong) {
  EXPECT_EQ(ExitCodeOf(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kCorrupt), 3);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kContextLength), 4);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kIo), 5);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kInterrupted), 130);
}

}  // namespace
}  // namespace quire
