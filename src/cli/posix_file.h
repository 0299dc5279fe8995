// Files written by hand: descriptors that close themselves, whole writes, locks, and errors that
// say what to do. Those of the cache, and those that a flag names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

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
// The same for a file outside the cache: an error gives no advice about the cache.
Status WriteOutput(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

// kInvalidArgument for a path that is empty, and for a file that is there and holds anything but a
// `kind`, which begins with `opening`: a name given by mistake, of a model say, costs nobody a
// file. Devices, pipes and empty files pass.
Status CheckMayReplace(const std::filesystem::path& path, std::string_view opening,
                       std::string_view kind);

// Whether both name one regular file, through links too. Also of files that are not there.
bool IsSameFile(const std::filesystem::path& a, const std::filesystem::path& b);

// Locks a file for this process; kIo, saying that another process is pulling `name` into
// `directory`, where one is. The lock is the descriptor: it goes when the process does.
Status LockPull(const Descriptor& lock, const std::string& name,
                const std::filesystem::path& directory);

// kResourceExhausted, with the numbers, where `directory` has less room than that.
Status CheckRoom(const std::filesystem::path& directory, const std::string& name,
                 uint64_t needed_bytes);

}  // namespace quire
