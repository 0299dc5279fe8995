// Values or errors: how every function of Quire that can fail says so.
//
// The library throws nothing. What the outside can cause (files, requests, the machine) comes back
// as a Result; what only a fault of ours can cause is a QUIRE_CHECK (base/check.h). Expected
// outcomes, such as "no block free", are std::optional or enums, not errors.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quire {

// What kind of thing went wrong. ExitCodeOf (base/result.cc) maps each to a process exit code.
enum class ErrorCode {
  kInvalidArgument,    // the caller's value is out of its documented range
  kNotFound,           // a named file, model, tensor or key is not there
  kCorrupt,            // bytes that contradict their format
  kUnsupported,        // well-formed, but Quire does not do it
  kResourceExhausted,  // memory, disk or cache room is short
  kContextLength,      // more tokens than the context holds
  kNumeric,            // NaN or infinity in the forward pass
  kIo,                 // the system refused a read, write or call
  kInterrupted,        // stopped on request
};

// 2 for a wrong argument, 3 for a bad or missing file, 4 for a lack of room, 5 for anything else,
// 130 for an interrupt.
int ExitCodeOf(ErrorCode code);

// A code for programs and a message for people: what, where, expected, got, and what to do.
struct Error {
  ErrorCode code;
  std::string message;
};

// MakeError(ErrorCode::kCorrupt, "{}: tensor {} ...", path, name)
template <typename... Args>
Error MakeError(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

// A T or an Error. Reading the value of an error (or the reverse) is a broken invariant.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    QUIRE_CHECK(ok(), "value() of an error");
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    QUIRE_CHECK(ok(), "value() of an error");
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    QUIRE_CHECK(ok(), "value() of an error");
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    QUIRE_CHECK(!ok(), "error() of a value");
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    QUIRE_CHECK(failed_, "error() of a success");
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_{};
};

using Status = Result<void>;

}  // namespace quire

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

// Leaves the function with the error of `expression`, if it has one.
#define QUIRE_RETURN_IF_ERROR(expression)                       \
  do {                                                          \
    if (auto quire_status = (expression); !quire_status.ok()) { \
      return quire_status.error();                              \
    }                                                           \
  } while (false)

// QUIRE_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
#define QUIRE_ASSIGN_OR_RETURN(lhs, expression) \
  QUIRE_ASSIGN_OR_RETURN_INNER(QUIRE_CONCAT(quire_result_, __LINE__), lhs, expression)
#define QUIRE_ASSIGN_OR_RETURN_INNER(result, lhs, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return result.error();                    \
  lhs = std::move(result).value()
