#include "engine/logits_file.h"

#include <array>
#include <cstring>

#include "base/bytes.h"

namespace quire {
namespace {

constexpr std::string_view kMagic = "QUIRELG1";
constexpr size_t kHeaderBytes = 8 + 4 * sizeof(uint32_t);

}  // namespace

Result<LogitsWriter> LogitsWriter::Create(const std::filesystem::path& path,
                                          const LogitsHeader& header,
                                          std::span<const int32_t> tokens) {
  LogitsWriter writer(path);
  writer.out_.open(path, std::ios::binary | std::ios::trunc);
  writer.out_.write(kMagic.data(), kMagic.size());
  const std::array<uint32_t, 4> numbers = {header.vocab_size, header.window, header.num_windows,
                                           header.first_scored};
  writer.out_.write(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
  writer.out_.write(reinterpret_cast<const char*>(tokens.data()),
                    static_cast<std::streamsize>(tokens.size_bytes()));
  if (!writer.out_) return MakeError(ErrorCode::kIo, "{}: cannot write", path.string());
  return writer;
}

Status LogitsWriter::Append(std::span<const float> rows) {
  out_.write(reinterpret_cast<const char*>(rows.data()),
             static_cast<std::streamsize>(rows.size_bytes()));
  if (!out_) return MakeError(ErrorCode::kIo, "{}: cannot write", path_.string());
  return {};
}

Status LogitsWriter::Finish() {
  if (!out_.flush()) return MakeError(ErrorCode::kIo, "{}: cannot write", path_.string());
  return {};
}

Result<LogitsReader> LogitsReader::Open(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const auto corrupt = [&](std::string_view what) {
    return MakeError(ErrorCode::kCorrupt, "{}: not a logits file: {}", path.string(), what);
  };
  ByteReader reader(file.bytes());
  const auto magic = reader.ReadBytes(kMagic.size());
  if (!magic || std::memcmp(magic->data(), kMagic.data(), kMagic.size()) != 0) {
    return corrupt("it does not begin with QUIRELG1");
  }
  const auto numbers = reader.Read<std::array<uint32_t, 4>>();
  if (!numbers) return corrupt("the header is cut off");
  const LogitsHeader header{(*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3]};
  if (header.vocab_size == 0 || header.window < 2 || header.num_windows == 0 ||
      header.first_scored >= header.window - 1) {
    return corrupt("its header has impossible sizes");
  }
  const auto num_tokens = CheckedMul(header.window, header.num_windows);
  const auto num_rows = CheckedMul(header.rows_per_window(), header.num_windows);
  const auto num_floats = num_rows ? CheckedMul(*num_rows, header.vocab_size) : std::nullopt;
  const auto words = num_tokens && num_floats ? CheckedAdd(*num_tokens, *num_floats) : std::nullopt;
  const auto bytes = words ? CheckedMul(*words, 4) : std::nullopt;
  if (!bytes || file.bytes().size() - kHeaderBytes != *bytes) {
    return corrupt("its length is not what its header says");
  }
  return LogitsReader(std::move(file), header);
}

std::span<const int32_t> LogitsReader::tokens() const {
  return {reinterpret_cast<const int32_t*>(file_.bytes().data() + kHeaderBytes),
          size_t{header_.window} * header_.num_windows};
}

std::span<const float> LogitsReader::row(uint32_t window_idx, uint32_t row_idx) const {
  const auto* first =
      reinterpret_cast<const float*>(file_.bytes().data() + kHeaderBytes + tokens().size_bytes());
  const size_t row = size_t{window_idx} * header_.rows_per_window() + row_idx;
  return {first + row * header_.vocab_size, header_.vocab_size};
}

}  // namespace quire
