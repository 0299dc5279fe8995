// One zstd frame (RFC 8878) of a payload whose length is known: what a packed record's body is.
//
// Contexts are kept a thread, so that neither verb allocates once it has run.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace quire {

// Bytes written to `frame`; nothing where the frame does not fit into it.
std::optional<size_t> PackFrame(std::span<const std::byte> payload, std::span<std::byte> frame);

// Whether `frame` unpacks to just the bytes of `payload`. Writes nothing beyond them and allocates
// nothing that the frame asks for: what it says of sizes and windows is not relied on. The two do
// not overlap.
bool UnpackFrame(std::span<const std::byte> frame, std::span<std::byte> payload);

}  // namespace quire
