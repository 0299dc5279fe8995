#include "models/pack_cache.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "formats/gguf.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFreeBytesToLeave = uint64_t{1} << 30;
constexpr uint64_t kFreeShareToLeave = 10;  // a tenth of the disk

bool IsHex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Error FolderError(const fs::path& path, const std::error_code& error) {
  return MakeError(ErrorCode::kIo, "{}: {}", path.string(), error.message());
}

// What a folder holds; nothing where it cannot be read.
std::vector<fs::directory_entry> FilesOf(const fs::path& folder) {
  std::vector<fs::directory_entry> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    files.push_back(*it);
  }
  return files;
}

}  // namespace

fs::path PackCache::PackPath(std::string_view digest) const {
  return directory_ / fmt::format("{}.pack", digest);
}

fs::path PackCache::SourcePath(const GgufFile& file) const {
  Sha256 hash;
  for (const MappedFile& part : file.parts()) {
    const FileIdentity& identity = part.identity();
    hash.Add(identity.size_bytes).Add(static_cast<uint64_t>(identity.modified_ns));
    hash.Add(identity.inode).Add(identity.device);
  }
  return directory_ / fmt::format("{}.source", ToHex(hash.Finish()));
}

std::optional<Pack> PackCache::Find(const GgufFile& file, const WeightPlan& plan,
                                    ThreadPool& pool) const {
  std::ifstream source(SourcePath(file));
  std::string digest;
  if (!(source >> digest) || digest.size() != 2 * sizeof(Digest) || !IsHex(digest)) {
    return std::nullopt;
  }
  const fs::path path = PackPath(digest);
  Result<Pack> pack = ReadPackFile(path, plan, pool);
  std::error_code ignored;
  if (!pack.ok() || ToHex(pack->digest) != digest) {
    // A damaged pack would stand in the way of the one that is made in its place.
    if (pack.ok() || pack.error().code == ErrorCode::kCorrupt) fs::remove(path, ignored);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return std::move(pack).value();
}

Status PackCache::MakeRoom(uint64_t bytes) const {
  if (bytes > max_bytes_) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: a pack of {} bytes is over the folder's bound of {}", directory_.string(),
                     bytes, max_bytes_);
  }
  std::vector<Entry> entries = List();
  uint64_t used = 0;
  for (const Entry& entry : entries) used += entry.bytes;
  for (; used + bytes > max_bytes_ && !entries.empty(); entries.pop_back()) {
    std::error_code ignored;
    fs::remove(PackPath(entries.back().digest), ignored);
    used -= entries.back().bytes;
  }
  std::error_code error;
  const fs::space_info space = fs::space(directory_, error);
  if (error) return FolderError(directory_, error);
  const uint64_t leave = std::min(space.capacity / kFreeShareToLeave, kFreeBytesToLeave);
  if (space.available < bytes + leave) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: {} bytes free; a pack of {} bytes would leave less than {}",
                     directory_.string(), space.available, bytes, leave);
  }
  return {};
}

void PackCache::RemoveLeftovers() const {
  for (const fs::directory_entry& file : FilesOf(directory_)) {
    // NAME.PID.part
    if (file.path().extension() != ".part") continue;
    const std::string pid_text = file.path().stem().extension().string();
    const long pid = pid_text.empty() ? 0 : std::strtol(pid_text.c_str() + 1, nullptr, 10);
    const bool is_gone = pid <= 0 || (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH);
    std::error_code ignored;
    if (is_gone) fs::remove(file.path(), ignored);
  }
}

Status PackCache::Store(const GgufFile& file, const WeightPlan& plan, const Pack& pack,
                        const std::function<bool()>& cancelled) const {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) return FolderError(directory_, error);
  const std::string digest = ToHex(pack.digest);
  const fs::path path = PackPath(digest);
  if (!fs::exists(path, error)) {
    RemoveLeftovers();
    QUIRE_RETURN_IF_ERROR(MakeRoom(PackFileBytes(plan)));
    QUIRE_RETURN_IF_ERROR(WritePackFile(path, plan, pack, cancelled));
  }
  // The name of the temporary file tells processes apart; the rename decides.
  const fs::path source = SourcePath(file);
  const fs::path temporary =
      source.string() + fmt::format(".{}.part", static_cast<long>(::getpid()));
  {
    std::ofstream out(temporary);
    out << digest << '\n';
    if (!out.flush()) return MakeError(ErrorCode::kIo, "{}: cannot write", temporary.string());
  }
  fs::rename(temporary, source, error);
  if (error) return FolderError(source, error);
  return {};
}

std::vector<PackCache::Entry> PackCache::List() const {
  std::vector<Entry> entries;
  for (const fs::directory_entry& file : FilesOf(directory_)) {
    std::error_code stat_error;
    if (file.path().extension() != ".pack" || !file.is_regular_file(stat_error)) continue;
    Entry entry{.digest = file.path().stem().string(),
                .bytes = file.file_size(stat_error),
                .last_used = file.last_write_time(stat_error)};
    if (!stat_error) entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, std::ranges::greater{}, &Entry::last_used);
  return entries;
}

Status PackCache::Remove(std::string_view digest_prefix) const {
  std::vector<std::string> matches;
  for (const Entry& entry : List()) {
    if (!digest_prefix.empty() && entry.digest.starts_with(digest_prefix)) {
      matches.push_back(entry.digest);
    }
  }
  if (matches.size() != 1) {
    return MakeError(matches.empty() ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
                     "{}: {} packs begin with '{}'; `quire packs` lists them", directory_.string(),
                     matches.size(), digest_prefix);
  }
  std::error_code error;
  fs::remove(PackPath(matches[0]), error);
  if (error) return FolderError(PackPath(matches[0]), error);
  return {};
}

Status PackCache::RemoveAll() const {
  for (const fs::directory_entry& file : FilesOf(directory_)) {
    const std::string extension = file.path().extension().string();
    if (extension != ".pack" && extension != ".source" && extension != ".part") continue;
    std::error_code remove_error;
    fs::remove(file.path(), remove_error);
    if (remove_error) return FolderError(file.path(), remove_error);
  }
  return {};
}

}  // namespace quire
