// The system's file calls, with faults by script: errors, short reads and writes, delays.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kv/tiers/disk/file_ops.h"

namespace quire::testing {

class FaultyFiles : public FileOps {
 public:
  enum class Call : uint8_t {
    kOpen,
    kRead,
    kWrite,
    kAllocate,
    kTruncate,
    kSync,
    kStat,
    kStatFileSystem,
    kUnlink
  };
  static constexpr int kNumCalls = 9;

  struct Fault {
    Call call = Call::kRead;
    int64_t after = 0;  // so many further calls of its kind go well
    int64_t times = 1;
    int error = EIO;       // 0 = none
    size_t max_bytes = 0;  // of a read or write at once; 0 = all
    int64_t delay_us = 0;
  };

  void Inject(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
  }
  int64_t num_calls(Call call) const {
    const std::lock_guard lock(mutex_);
    return num_calls_[static_cast<size_t>(call)];
  }
  int64_t num_injected() const {
    const std::lock_guard lock(mutex_);
    return num_injected_;
  }
  // Called before each call, without a lock.
  void SetHook(std::function<void(Call)> hook) { hook_ = std::move(hook); }

  int Open(const char* path, int flags, mode_t mode) override {
    const Fault fault = Next(Call::kOpen);
    return Fails(fault) ? -1 : FileOps::Open(path, flags, mode);
  }
  ssize_t PreadV(int fd, const iovec* parts, int num_parts, off_t offset) override {
    const Fault fault = Next(Call::kRead);
    if (Fails(fault)) return -1;
    if (fault.max_bytes == 0) return FileOps::PreadV(fd, parts, num_parts, offset);
    const iovec part = Short(parts[0], fault.max_bytes);
    return FileOps::PreadV(fd, &part, 1, offset);
  }
  ssize_t PwriteV(int fd, const iovec* parts, int num_parts, off_t offset) override {
    const Fault fault = Next(Call::kWrite);
    if (fault.max_bytes == 0) {
      return Fails(fault) ? -1 : FileOps::PwriteV(fd, parts, num_parts, offset);
    }
    // With an error: what is half written before it.
    const iovec part = Short(parts[0], fault.max_bytes);
    const ssize_t written = FileOps::PwriteV(fd, &part, 1, offset);
    return Fails(fault) ? -1 : written;
  }
  int Allocate(int fd, off_t offset, off_t length) override {
    const Fault fault = Next(Call::kAllocate);
    return fault.error != 0 ? fault.error : FileOps::Allocate(fd, offset, length);
  }
  int Truncate(int fd, off_t length) override {
    return Fails(Next(Call::kTruncate)) ? -1 : FileOps::Truncate(fd, length);
  }
  int Sync(int fd) override { return Fails(Next(Call::kSync)) ? -1 : FileOps::Sync(fd); }
  int Stat(int fd, struct stat* out) override {
    return Fails(Next(Call::kStat)) ? -1 : FileOps::Stat(fd, out);
  }
  int StatFileSystem(int fd, struct statvfs* out) override {
    return Fails(Next(Call::kStatFileSystem)) ? -1 : FileOps::StatFileSystem(fd, out);
  }
  int Unlink(const char* path) override {
    return Fails(Next(Call::kUnlink)) ? -1 : FileOps::Unlink(path);
  }

 private:
  Fault Next(Call call) {
    if (hook_) hook_(call);
    Fault active = {.call = call, .times = 0, .error = 0};
    {
      const std::lock_guard lock(mutex_);
      ++num_calls_[static_cast<size_t>(call)];
      for (Fault& fault : faults_) {
        if (fault.call != call || fault.times == 0) continue;
        if (fault.after > 0) {
          --fault.after;
          continue;
        }
        --fault.times;
        ++num_injected_;
        active = fault;
        break;
      }
    }
    if (active.delay_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(active.delay_us));
    }
    return active;
  }
  static bool Fails(const Fault& fault) {
    if (fault.error == 0) return false;
    errno = fault.error;
    return true;
  }
  static iovec Short(const iovec& part, size_t max_bytes) {
    return {.iov_base = part.iov_base, .iov_len = std::min(part.iov_len, max_bytes)};
  }

  mutable std::mutex mutex_;
  std::vector<Fault> faults_;
  std::array<int64_t, kNumCalls> num_calls_{};
  int64_t num_injected_ = 0;
  std::function<void(Call)> hook_;
};

}  // namespace quire::testing
