// Brings the files of a remote model here: resumable, checked, published whole.
//
// A file arrives as FILE.part, with FILE.part.source beside it: address, validator (ETag) and size.
// A download that was stopped goes on where it stopped if the server still has the same content,
// and begins anew if not. A file gets its name only when it has its full size, the digest that the
// hub or the caller told, and the beginning of a GGUF file; the set as a whole must then be one.
// One download of a model at a time; another process is told so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/download/remote_model.h"
#include "cli/pull.h"

namespace quire {

struct DownloadOptions {
  std::string sha256{};         // of the model's only file; empty = not told
  int max_attempts = 5;         // in a row that bring no byte
  double first_pause_s = 0.25;  // before the second attempt; doubles with each
  int stall_timeout_s = 60;
};

// Whether all files are there.
bool IsDownloaded(const RemoteModel& model);

// Does nothing for files that are there. `progress` may be empty. Errors: kNotFound and kIo with
// the server's status and what to do, kCorrupt with expected and got, kResourceExhausted where the
// disk is short, kInterrupted after Ctrl-C.
Status Download(const RemoteModel& model, const ProgressSink& progress,
                const DownloadOptions& options = {});

}  // namespace quire
