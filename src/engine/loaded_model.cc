#include "engine/loaded_model.h"

#include <system_error>
#include <thread>

#include "base/thread_pool.h"
#include "models/pack_cache.h"

namespace quire {

// Stores a pack on a thread of its own, so that the model answers at once.
class LoadedModel::PackWriter {
 public:
  PackWriter(const LoadedModel& model, const LoadOptions& options) {
    const auto store = [&model, cache = PackCache(*options.pack_directory), notice = options.notice,
                        interrupted = options.interrupted] {
      const Status status = cache.Store(model.file_, model.plan_, model.pack_,
                                        [&interrupted] { return interrupted && interrupted(); });
      if (!status.ok() && notice && status.error().code != ErrorCode::kInterrupted) {
        notice("the packed weights stay in memory only: " + status.error().message);
      }
    };
    try {
      thread_ = std::jthread(store);
    } catch (const std::system_error&) {
      store();  // no thread to be had
    }
  }

 private:
  std::jthread thread_;
};

LoadedModel::LoadedModel(GgufFile file)
    : file_(std::move(file)),
      template_(MakeError(ErrorCode::kNotFound, "{}: the file has no chat template",
                          file_.part_paths()[0].string())) {}
LoadedModel::~LoadedModel() = default;

Result<std::unique_ptr<LoadedModel>> LoadedModel::Load(const std::filesystem::path& path,
                                                       const LoadOptions& options,
                                                       ThreadPool& pool) {
  QUIRE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  std::unique_ptr<LoadedModel> model(new LoadedModel(std::move(file)));
  QUIRE_ASSIGN_OR_RETURN(model->config_, ReadModelConfig(model->file_));
  QUIRE_ASSIGN_OR_RETURN(model->plan_, PlanWeights(model->file_, model->config_));
  if (options.admit) QUIRE_RETURN_IF_ERROR(options.admit(model->file_, model->config_));
  // The vocabulary is read beside the weights: on the small models both take as long.
  ThreadPool reader(2);
  Status text;
  Status weights;
  reader.Run([&](int thread_idx) {
    // Packing shows its progress on the caller's thread; alone, that thread does both.
    if (thread_idx == 0) weights = model->LoadWeights(options, pool);
    if (thread_idx == reader.num_threads() - 1) text = model->LoadText();
  });
  QUIRE_RETURN_IF_ERROR(text);
  QUIRE_RETURN_IF_ERROR(weights);
  return model;
}

Status LoadedModel::LoadText() {
  QUIRE_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::FromGguf(file_));
  if (tokenizer_->num_tokens() > config_.vocab_size) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: the tokenizer has {} tokens and the token embedding {} rows; expected "
                     "no more tokens than rows",
                     file_.part_paths()[0].string(), tokenizer_->num_tokens(), config_.vocab_size);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string_view source,
                         file_.GetStringOr("tokenizer.chat_template", ""));
  if (source.empty()) return {};
  template_ = ChatTemplate::Parse(source);
  if (!template_.ok()) {
    template_ = MakeError(template_.error().code, "{}: tokenizer.chat_template: {}",
                          file_.part_paths()[0].string(), template_.error().message);
  }
  return {};
}

Result<const ChatTemplate*> LoadedModel::chat_template() const {
  if (!template_.ok()) return template_.error();
  return &*template_;
}

Status LoadedModel::LoadWeights(const LoadOptions& options, ThreadPool& pool) {
  if (options.pack_directory) {
    if (auto found = PackCache(*options.pack_directory).Find(file_, plan_, pool)) {
      pack_ = std::move(*found);
      from_cache_ = true;
    }
  }
  if (!from_cache_) {
    QUIRE_ASSIGN_OR_RETURN(pack_, PackWeights(file_, plan_, pool, options.progress));
    if (options.pack_directory) writer_ = std::make_unique<PackWriter>(*this, options);
  }
  weights_ = BindWeights(plan_, config_.num_layers(), pack_.memory.data());
  return {};
}

}  // namespace quire
