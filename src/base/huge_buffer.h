// Zeroed anonymous memory on 2 MiB pages where the system has them.
//
// 4 KiB pages cost matrix-vector kernels 15 to 40 % (page-table walks), so weights and KV live
// here. Owns its memory. Move-only. Pages are committed when first touched.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace quire {

class HugeBuffer {
 public:
  // Fails with kResourceExhausted, naming the bytes asked for.
  static Result<HugeBuffer> Allocate(size_t size_bytes);

  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  ~HugeBuffer();

  std::byte* data() const { return data_; }  // 2 MiB aligned
  size_t size() const { return size_bytes_; }
  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

  // What the system gives and takes at the least. A first touch may give 2 MiB at once.
  static size_t page_bytes();
  // Gives the memory of the pages that lie wholly inside the range back to the system. They are
  // committed again, zeroed, when next touched.
  void Decommit(size_t offset, size_t size_bytes);

 private:
  HugeBuffer(std::byte* data, size_t size_bytes, size_t mapped_bytes)
      : data_(data), size_bytes_(size_bytes), mapped_bytes_(mapped_bytes) {}

  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;
};

}  // namespace quire
