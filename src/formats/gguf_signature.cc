#include "formats/gguf_signature.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "formats/printable.h"

namespace quire {
namespace {

constexpr std::string_view kMagic = "GGUF";

bool IsGgmlMagic(std::string_view text) {
  for (std::string_view magic : {"ggml", "ggmf", "ggjt", "ggla"}) {
    const std::string reversed(magic.rbegin(), magic.rend());
    if (text.starts_with(magic) || text.starts_with(reversed)) return true;
  }
  return false;
}

// The first characters that are neither white space nor a byte order mark, in lower case.
std::string StartOfText(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  std::string start(begin == text.npos ? "" : text.substr(begin, 16));
  std::transform(start.begin(), start.end(), start.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return start;
}

// A guess in words, for bytes that do not start with the magic.
std::string Describe(std::string_view text) {
  const std::string start = StartOfText(text);
  if (text.starts_with("version https://git-lfs")) {
    return "it is a Git LFS pointer; fetch the file itself with `git lfs pull`";
  }
  if (start.starts_with("<!doctype html") || start.starts_with("<html")) {
    return "it is an HTML page; download the model file itself";
  }
  if (IsGgmlMagic(text)) {
    return "it is in an older GGML format (ggml, ggmf, ggjt); convert it to GGUF";
  }
  if (text.starts_with("FUGG")) return "its magic is byte-swapped (a big-endian file)";
  if (text.starts_with("PK\x03\x04")) return "it is a ZIP archive (perhaps a PyTorch checkpoint)";
  if (text.starts_with("\x1f\x8b") || text.starts_with("\x28\xb5\x2f\xfd")) {
    return "it is a compressed file; unpack it first";
  }
  if (text.size() > 8 && text[8] == '{') return "it looks like a safetensors file";
  if (start.starts_with("{")) return "it looks like JSON";
  if (start.starts_with("<")) return "it looks like XML or HTML";
  if (text.size() < kMagic.size()) return fmt::format("it has only {} bytes", text.size());
  return fmt::format("expected it to start with \"GGUF\", got \"{}\"",
                     Printable(text.substr(0, 4)));
}

}  // namespace

Status CheckGgufSignature(std::string_view file, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 256));
  if (text.empty()) {
    return MakeError(ErrorCode::kCorrupt, "{}: not a GGUF file: it is empty (0 bytes)", file);
  }
  if (text.size() < 8 && kMagic.starts_with(text.substr(0, 4))) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: data beyond end of file: a GGUF header has at least 24 bytes, the file "
                     "has {}; it is truncated",
                     file, text.size());
  }
  if (!text.starts_with(kMagic)) {
    return MakeError(ErrorCode::kCorrupt, "{}: not a GGUF file: {}", file, Describe(text));
  }
  ByteReader reader(bytes.subspan(kMagic.size()));
  const uint32_t version = reader.Read<uint32_t>().value_or(0);
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xffffu) == 0) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: a big-endian GGUF file (version {}); Quire reads little-endian files",
                     file, __builtin_bswap32(version));
  }
  return MakeError(ErrorCode::kUnsupported,
                   "{}: GGUF version {} is not supported (expected 2 or 3){}", file, version,
                   version == 1 ? "; convert the model again with a current converter" : "");
}

}  // namespace quire
