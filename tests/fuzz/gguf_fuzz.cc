// Any bytes as a GGUF file: opening gives a file or an error. Of a file everything is read that a
// caller could read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "formats/gguf.h"
#include "formats/gguf_part.h"

namespace {

// A file in memory, reached by a path. One for the whole run: it is cut and filled again.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("gguf_fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0) std::abort();
  }
  void Fill(const uint8_t* data, size_t size) {
    if (::ftruncate(fd_, 0) != 0) std::abort();
    if (size > 0 && ::pwrite(fd_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

uint64_t ReadEverything(const quire::GgufFile& file) {
  uint64_t sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    if (const auto number = file.GetUint(key); number.ok()) sum += *number;
    if (const auto number = file.GetFloat(key); number.ok()) sum += *number > 0;
    if (const auto text = file.GetString(key); text.ok()) sum += text->size();
    if (const auto layers = file.GetUintPerLayer(key, 3); layers.ok()) sum += layers->front();
    if (const auto strings = file.GetStrings(key); strings.ok()) {
      for (std::string_view text : **strings) sum += text.empty() ? 0 : text.back();
    }
  }
  for (const quire::GgufTensor& tensor : file.tensors()) {
    sum += file.FindTensor(tensor.name) == &tensor;
    for (std::byte value : tensor.data) sum += std::to_integer<uint64_t>(value);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // First where the bytes lie, so that a sanitizer sees a read past their end.
  const bool parses = quire::ParseGgufPart("input", std::as_bytes(std::span(data, size))).ok();
  static MemoryFile memory;
  memory.Fill(data, size);
  const auto file = quire::GgufFile::Open(memory.path());
  if (file.ok() && !parses) std::abort();
  if (!file.ok()) {
    if (file.error().message.empty()) std::abort();
    return 0;
  }
  [[maybe_unused]] static volatile uint64_t kept = 0;  // so that no read is optimised away
  kept = ReadEverything(*file);
  return 0;
}
