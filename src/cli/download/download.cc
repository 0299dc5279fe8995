#include "cli/download/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "base/sha256.h"
#include "cli/download/transfer.h"
#include "cli/interrupt.h"
#include "cli/posix_file.h"
#include "formats/gguf.h"
#include "formats/printable.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr std::string_view kGgufMagic = "GGUF";

// What FILE.part.source says about FILE.part.
struct PartSource {
  std::string url{};
  std::string validator{};
  std::string sha256{};
  uint64_t total_bytes = 0;  // 0 = the server did not tell
};

// One file on its way.
class FileDownload {
 public:
  FileDownload(const RemoteFile& remote, const RemoteModel& model, const DownloadOptions& options)
      : remote_(remote), model_(model), options_(options) {
    part_ = remote.file;
    part_ += ".part";
    source_file_ = part_;
    source_file_ += ".source";
  }

  Status Run(const std::function<void(uint64_t done, uint64_t total)>& report);

 private:
  enum class Outcome { kDone, kTryAgain };

  Result<Outcome> Attempt();
  Status TakeHead(const TransferHead& head);
  Status TakeBytes(std::span<const std::byte> bytes);
  Status BeginAnew(const TransferHead& head);
  Status Pause(int attempt, const Error& reason);
  Status Check();
  Status Publish();
  Result<std::string> DigestOfPart();
  void Discard();

  PartSource ReadSource() const;
  Status WriteSource() const;
  Error Refusal(const TransferHead& head) const;

  const RemoteFile& remote_;
  const RemoteModel& model_;
  const DownloadOptions& options_;
  std::function<void(uint64_t, uint64_t)> report_;
  fs::path part_;
  fs::path source_file_;
  PartSource source_;
  std::optional<Descriptor> out_;
  uint64_t size_bytes_ = 0;    // of the part
  int retry_after_s_ = 0;      // that the server asked for
  bool may_try_again_ = true;  // after the error of an attempt
};

Status FileDownload::Run(const std::function<void(uint64_t, uint64_t)>& report) {
  report_ = report;
  QUIRE_RETURN_IF_ERROR(MakeDirectory(part_.parent_path()));
  source_ = ReadSource();
  // Bytes that cannot be told from others' are of no use.
  size_bytes_ = source_.url == remote_.url && !source_.validator.empty() ? SizeOf(part_) : 0;
  for (int attempt = 1;;) {
    const uint64_t bytes_before = size_bytes_;
    auto outcome = Attempt();
    out_.reset();
    if (outcome.ok() && *outcome == Outcome::kDone) break;
    if (size_bytes_ > bytes_before) attempt = 1;
    if (!outcome.ok()) {
      if (!may_try_again_ || outcome.error().code != ErrorCode::kIo ||
          attempt >= options_.max_attempts) {
        return outcome.error();
      }
      QUIRE_RETURN_IF_ERROR(Pause(attempt, outcome.error()));
    }
    ++attempt;
    if (attempt > options_.max_attempts) {
      return MakeError(ErrorCode::kIo, "{}: the server's answers do not fit together; try again",
                       Printable(remote_.url));
    }
  }
  QUIRE_RETURN_IF_ERROR(Check());
  return Publish();
}

Result<FileDownload::Outcome> FileDownload::Attempt() {
  may_try_again_ = true;
  retry_after_s_ = 0;
  const bool is_complete = source_.total_bytes > 0 && size_bytes_ == source_.total_bytes;
  if (is_complete) return Outcome::kDone;
  if (size_bytes_ > source_.total_bytes && source_.total_bytes > 0) size_bytes_ = 0;
  out_.emplace(::open(part_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (out_->fd() < 0) return WriteError(part_, errno);
  if (::ftruncate(out_->fd(), static_cast<off_t>(size_bytes_)) != 0 ||
      ::lseek(out_->fd(), 0, SEEK_END) < 0) {
    return WriteError(part_, errno);
  }
  const Status status = Transfer({.url = remote_.url,
                                  .bearer_token = model_.bearer_token,
                                  .offset = size_bytes_,
                                  .if_range = source_.validator,
                                  .stall_timeout_s = options_.stall_timeout_s},
                                 {.on_head = [this](const auto& head) { return TakeHead(head); },
                                  .on_bytes = [this](auto bytes) { return TakeBytes(bytes); },
                                  .interrupted = Interrupted});
  if (!status.ok()) {
    if (status.error().code != ErrorCode::kInterrupted) return status.error();
    return MakeError(ErrorCode::kInterrupted,
                     "stopped pulling '{}'; the same command goes on where it stopped",
                     Printable(model_.name));
  }
  const bool is_whole = source_.total_bytes == 0 || size_bytes_ == source_.total_bytes;
  return is_whole ? Outcome::kDone : Outcome::kTryAgain;
}

Status FileDownload::TakeHead(const TransferHead& head) {
  if (head.is_encoded) {
    may_try_again_ = false;
    return MakeError(ErrorCode::kUnsupported,
                     "{}: the server sends the file compressed, which it was asked not to",
                     Printable(remote_.url));
  }
  if (head.status == 200) return BeginAnew(head);
  const bool goes_on = head.status == 206 && size_bytes_ > 0;
  const bool fits = head.first_byte == size_bytes_ && head.total_bytes == source_.total_bytes &&
                    (head.validator.empty() || head.validator == source_.validator);
  if (goes_on && fits) return {};
  if (goes_on || head.status == 206 || head.status == 416) {
    // Not the content that the part began with: begin with nothing.
    size_bytes_ = 0;
    source_ = {};
    return MakeError(ErrorCode::kIo, "{}: the server has other content than before",
                     Printable(remote_.url));
  }
  retry_after_s_ = head.retry_after_s;
  may_try_again_ = head.status == 408 || head.status == 429 || head.status >= 500;
  return Refusal(head);
}

Error FileDownload::Refusal(const TransferHead& head) const {
  const std::string url = Printable(remote_.url);
  if (head.status == 401 || head.status == 403) {
    return MakeError(ErrorCode::kIo, "{}: the server refuses (status {}); {}", url, head.status,
                     model_.bearer_token.empty()
                         ? "set HF_TOKEN to a token that may read it"
                         : "the token in HF_TOKEN may not read it: accept the model's terms on its "
                           "page, or use another token");
  }
  if (head.status == 404 || head.status == 410) {
    return MakeError(ErrorCode::kNotFound, "{}: not there (status {}); check the name", url,
                     head.status);
  }
  return MakeError(ErrorCode::kIo, "{}: the server answers with status {}", url, head.status);
}

Status FileDownload::BeginAnew(const TransferHead& head) {
  size_bytes_ = 0;
  if (::ftruncate(out_->fd(), 0) != 0 || ::lseek(out_->fd(), 0, SEEK_SET) < 0) {
    return WriteError(part_, errno);
  }
  source_ = {.url = remote_.url,
             .validator = head.validator,
             .sha256 = head.sha256,
             .total_bytes = head.total_bytes.value_or(0)};
  QUIRE_RETURN_IF_ERROR(CheckRoom(part_.parent_path(), model_.name, source_.total_bytes));
  return WriteSource();
}

Status FileDownload::TakeBytes(std::span<const std::byte> bytes) {
  if (source_.total_bytes > 0 && size_bytes_ + bytes.size() > source_.total_bytes) {
    may_try_again_ = false;
    return MakeError(ErrorCode::kCorrupt, "{}: the server sends more than the {} bytes it told",
                     Printable(remote_.url), source_.total_bytes);
  }
  // A page that explains an error is not worth downloading to its end.
  if (size_bytes_ == 0 && bytes.size() >= kGgufMagic.size() &&
      std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) != 0) {
    may_try_again_ = false;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                                std::min<size_t>(bytes.size(), 40));
    return MakeError(ErrorCode::kCorrupt, "{}: not a GGUF file; it begins with '{}'",
                     Printable(remote_.url), Printable(text, 40));
  }
  QUIRE_RETURN_IF_ERROR(WriteAll(out_->fd(), bytes, part_));
  size_bytes_ += bytes.size();
  if (report_) report_(size_bytes_, source_.total_bytes);
  return {};
}

Status FileDownload::Pause(int attempt, const Error& reason) {
  using Clock = std::chrono::steady_clock;
  const double seconds = std::max(options_.first_pause_s * (1 << std::min(attempt - 1, 5)),
                                  static_cast<double>(retry_after_s_));
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  while (Clock::now() < end) {
    if (Interrupted()) return reason;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {};
}

Result<std::string> FileDownload::DigestOfPart() {
  const Descriptor file(::open(part_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return IoError(part_, std::strerror(errno));
  std::vector<std::byte> buffer(kChunkBytes);
  Sha256 digest;
  for (;;) {
    const ssize_t got = ::read(file.fd(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError(part_, std::strerror(errno));
    if (got == 0) return ToHex(digest.Finish());
    digest.Add(std::span<const std::byte>(buffer).first(static_cast<size_t>(got)));
    if (Interrupted()) {
      return MakeError(ErrorCode::kInterrupted, "stopped checking '{}'", Printable(model_.name));
    }
  }
}

Status FileDownload::Check() {
  std::string magic(kGgufMagic.size(), '\0');
  std::ifstream(part_, std::ios::binary).read(magic.data(), static_cast<long>(magic.size()));
  if (magic != kGgufMagic) {
    Discard();
    return MakeError(ErrorCode::kCorrupt, "{}: not a GGUF file; it begins with '{}'",
                     Printable(remote_.url), Printable(magic));
  }
  std::vector<std::string> expected;
  if (!options_.sha256.empty()) expected.push_back(options_.sha256);
  if (!source_.sha256.empty()) expected.push_back(source_.sha256);
  if (expected.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const std::string digest, DigestOfPart());
  for (const std::string& wanted : expected) {
    if (digest == wanted) continue;
    const uint64_t size = SizeOf(part_);
    Discard();
    return MakeError(ErrorCode::kCorrupt,
                     "{}: arrived damaged: expected SHA-256 {}, got {} bytes with SHA-256 {}; they "
                     "are deleted, run the same command again",
                     Printable(remote_.url), wanted, size, digest);
  }
  return {};
}

Status FileDownload::Publish() {
  {
    const Descriptor file(::open(part_.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd() < 0 || ::fsync(file.fd()) != 0) return WriteError(part_, errno);
  }
  std::error_code error;
  fs::rename(part_, remote_.file, error);
  if (error) return IoError(remote_.file, error.message());
  fs::remove(source_file_, error);
  return {};
}

void FileDownload::Discard() {
  std::error_code error;
  fs::remove(part_, error);
  fs::remove(source_file_, error);
}

PartSource FileDownload::ReadSource() const {
  std::ifstream file(source_file_);
  PartSource source;
  std::string total;
  const bool is_whole = std::getline(file, source.url) && std::getline(file, source.validator) &&
                        std::getline(file, source.sha256) && std::getline(file, total) &&
                        !total.empty() && total.size() < 20 &&
                        std::ranges::all_of(total, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_whole) return {};
  source.total_bytes = std::stoull(total);
  return source;
}

Status FileDownload::WriteSource() const {
  const Descriptor file(
      ::open(source_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) return WriteError(source_file_, errno);
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n", source_.url, source_.validator,
                                       source_.sha256, source_.total_bytes);
  return WriteAll(file.fd(), std::as_bytes(std::span(text)), source_file_);
}

}  // namespace

bool IsDownloaded(const RemoteModel& model) {
  return std::ranges::all_of(model.files,
                             [](const RemoteFile& file) { return SizeOf(file.file) > 0; });
}

Status Download(const RemoteModel& model, const ProgressSink& progress,
                const DownloadOptions& options) {
  if (IsDownloaded(model)) return {};
  if (!options.sha256.empty() && model.files.size() > 1) {
    return MakeError(ErrorCode::kInvalidArgument, "one SHA-256 is told, and '{}' has {} files",
                     Printable(model.name), model.files.size());
  }
  const fs::path& first = model.files.front().file;
  QUIRE_RETURN_IF_ERROR(MakeDirectory(first.parent_path()));
  fs::path lock_file = first;
  lock_file += ".lock";
  const Descriptor lock(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  QUIRE_RETURN_IF_ERROR(LockPull(lock, Printable(model.name), first.parent_path()));
  for (size_t i = 0; i < model.files.size(); ++i) {
    if (SizeOf(model.files[i].file) > 0) continue;
    const auto report = [&](uint64_t done, uint64_t total) {
      if (!progress) return;
      progress({.step = fmt::format("downloading {} of {}", i + 1, model.files.size()),
                .done_bytes = done,
                .total_bytes = std::max(done, total)});
    };
    QUIRE_RETURN_IF_ERROR(FileDownload(model.files[i], model, options).Run(report));
  }
  std::error_code error;
  fs::remove(lock_file, error);
  // A set that is no model is told here, not when it is first run.
  const auto file = GgufFile::Open(first);
  if (file.ok()) return {};
  for (const RemoteFile& remote : model.files) fs::remove(remote.file, error);
  return MakeError(ErrorCode::kCorrupt, "'{}' is no model that can be read: {}; it is deleted",
                   Printable(model.name), file.error().message);
}

}  // namespace quire
