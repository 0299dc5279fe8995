// Files written by hand: descriptors that close themselves, whole writes, locks, and errors that
// say what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace quire {

// Owns a file descriptor; -1 = none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Of a call that has just failed with this errno.
Error IoError(const std::filesystem::path& path, const std::string& what);
Error WriteError(const std::filesystem::path& path, int error);

Status MakeDirectory(const std::filesystem::path& path);
// Size of a file; 0 where it is not there.
uint64_t SizeOf(const std::filesystem::path& path);

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

// Locks a file for this process; kIo, saying that another process is pulling `name` into
// `directory`, where one is. The lock is the descriptor: it goes when the process does.
Status LockPull(const Descriptor& lock, const std::string& name,
                const std::filesystem::path& directory);

// kResourceExhausted, with the numbers, where `directory` has less room than that.
Status CheckRoom(const std::filesystem::path& directory, const std::string& name,
                 uint64_t needed_bytes);

}  // namespace quire
