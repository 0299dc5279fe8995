// A model ready to run: its file, configuration, weights in memory, tokenizer and chat template.
//
// Loading finds the weights in the pack cache or packs them; a new pack is written to the cache in
// the background while the model is in use. Const after Load: any number of threads may read.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "formats/gguf.h"
#include "models/config.h"
#include "models/pack.h"
#include "models/weights.h"
#include "text/chat_template/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

class ThreadPool;

struct LoadOptions {
  // Where packs are kept; nothing = the weights are packed anew each time, in memory alone.
  std::optional<std::filesystem::path> pack_directory;
  PackProgress progress;  // of packing; may be empty
  // Asked before any weight is read; an error ends the loading. May be empty.
  std::function<Status(const GgufFile& file, const ModelConfig& config)> admit;
  std::function<bool()> interrupted;  // true ends the writing of a pack; may be empty
  // Told in one line when the pack cannot be kept; the model runs all the same. May be called from
  // another thread.
  std::function<void(const std::string&)> notice;
};

class LoadedModel {
 public:
  static Result<std::unique_ptr<LoadedModel>> Load(const std::filesystem::path& path,
                                                   const LoadOptions& options, ThreadPool& pool);
  // Waits for the pack to be written.
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const GgufFile& file() const { return file_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // kNotFound where the file has none; the parser's error where it cannot be used.
  Result<const ChatTemplate*> chat_template() const;
  // Of the weights (models/pack.h).
  const Digest& digest() const { return pack_.digest; }
  bool came_from_pack_cache() const { return from_cache_; }
  std::span<const std::byte> packed_weights() const { return pack_.memory.bytes(); }

 private:
  class PackWriter;

  explicit LoadedModel(GgufFile file);
  Status LoadWeights(const LoadOptions& options, ThreadPool& pool);
  Status LoadText();

  GgufFile file_;
  ModelConfig config_;
  WeightPlan plan_;
  Pack pack_;
  Weights weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Result<ChatTemplate> template_;
  bool from_cache_ = false;
  std::unique_ptr<PackWriter> writer_;  // last: it reads the pack
};

}  // namespace quire
