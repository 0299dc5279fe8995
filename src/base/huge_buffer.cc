#include "base/huge_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/bytes.h"

namespace quire {
namespace {
constexpr size_t kHugePageBytes = size_t{2} << 20;
}  // namespace

Result<HugeBuffer> HugeBuffer::Allocate(size_t size_bytes) {
  const size_t mapped_bytes = AlignUp(size_bytes, kHugePageBytes);
  if (mapped_bytes < size_bytes || mapped_bytes + kHugePageBytes < mapped_bytes) {
    return MakeError(ErrorCode::kResourceExhausted, "cannot allocate {} bytes", size_bytes);
  }
  if (mapped_bytes == 0) return HugeBuffer();
  // One page more than needed, so that the aligned part can be cut out of the middle.
  void* address = ::mmap(nullptr, mapped_bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return MakeError(ErrorCode::kResourceExhausted, "cannot allocate {} bytes of memory",
                     size_bytes);
  }
  auto* begin = static_cast<std::byte*>(address);
  const size_t head = AlignUp(reinterpret_cast<uintptr_t>(begin), kHugePageBytes) -
                      reinterpret_cast<uintptr_t>(begin);
  if (head > 0) ::munmap(begin, head);
  ::munmap(begin + head + mapped_bytes, kHugePageBytes - head);
  ::madvise(begin + head, mapped_bytes, MADV_HUGEPAGE);
  return HugeBuffer(begin + head, size_bytes, mapped_bytes);
}

size_t HugeBuffer::page_bytes() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void HugeBuffer::Decommit(size_t offset, size_t size_bytes) {
  QUIRE_CHECK(offset <= size_bytes_ && size_bytes <= size_bytes_ - offset, "{} bytes at {} of {}",
              size_bytes, offset, size_bytes_);
  const size_t begin = AlignUp(offset, page_bytes());
  const size_t end = (offset + size_bytes) & ~(page_bytes() - 1);
  // Memory that the system will not take back (locked pages) is no fault: it stays.
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

}  // namespace quire
