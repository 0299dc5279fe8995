#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/exact_math.h"
#include "engine/logits_file.h"

namespace quire {
namespace {

// log of the sum of e^x, in double.
double LogSumExp(std::span<const float> row) {
  const double highest = *std::ranges::max_element(row);
  double sum = 0;
  for (const float x : row) sum += exact::Exp(x - highest);
  return highest + exact::Log(sum);
}

// KL(p || q) of two rows of raw logits, in nats.
double Divergence(std::span<const float> p, std::span<const float> q) {
  const double p_norm = LogSumExp(p);
  const double q_norm = LogSumExp(q);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_norm;
    sum += exact::Exp(log_p) * (log_p - (q[i] - q_norm));
  }
  return sum;
}

// A running mean with its standard error (Welford's method).
class Mean {
 public:
  void Add(double value) {
    ++count_;
    const double delta = value - mean_;
    mean_ += delta / count_;
    squares_ += delta * (value - mean_);
  }
  double mean() const { return mean_; }
  double standard_error() const {
    return count_ < 2 ? 0 : std::sqrt(squares_ / (count_ - 1) / count_);
  }

 private:
  double count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

// The tokens of all windows; BOS in front of each, where the model has it in front of a text.
std::vector<int32_t> CutIntoWindows(std::span<const int32_t> tokens, const LogitsHeader& header,
                                    const Tokenizer& tokenizer) {
  std::vector<int32_t> windows(tokens.begin(),
                               tokens.begin() + size_t{header.window} * header.num_windows);
  if (tokenizer.adds_bos() && tokenizer.bos() >= 0) {
    for (size_t i = 0; i < windows.size(); i += header.window) windows[i] = tokenizer.bos();
  }
  return windows;
}

Status CheckSameText(const LogitsReader& saved, const LogitsHeader& header,
                     std::span<const int32_t> windows, const std::filesystem::path& path) {
  const LogitsHeader& other = saved.header();
  if (other.vocab_size != header.vocab_size || other.window != header.window ||
      other.first_scored != header.first_scored || other.num_windows < header.num_windows ||
      !std::ranges::equal(saved.tokens().first(windows.size()), windows)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: saved for another text, vocabulary or window (vocabulary {}, {} windows "
                     "of {}); expected vocabulary {}, {} windows of {}",
                     path.string(), other.vocab_size, other.num_windows, other.window,
                     header.vocab_size, header.num_windows, header.window);
  }
  return {};
}

}  // namespace

Result<PerplexityResult> MeasurePerplexity(ModelRunner& runner, std::span<const int32_t> tokens,
                                           const PerplexityOptions& options,
                                           const std::function<bool(int, int)>& progress) {
  if (options.window < 4 || options.window > runner.context_length()) {
    return MakeError(ErrorCode::kInvalidArgument, "a window of {} tokens; expected 4 to {}",
                     options.window, runner.context_length());
  }
  LogitsHeader header{.vocab_size = static_cast<uint32_t>(runner.vocab_size()),
                      .window = static_cast<uint32_t>(options.window),
                      .num_windows = static_cast<uint32_t>(tokens.size() / options.window),
                      .first_scored = static_cast<uint32_t>(options.window / 2)};
  if (header.num_windows == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the text has {} tokens; expected at least one window of {}", tokens.size(),
                     options.window);
  }
  if (options.max_windows > 0) {
    header.num_windows = std::min(header.num_windows, static_cast<uint32_t>(options.max_windows));
  }
  const std::vector<int32_t> windows = CutIntoWindows(tokens, header, runner.model().tokenizer());
  std::optional<LogitsWriter> writer;
  if (options.save_logits) {
    QUIRE_ASSIGN_OR_RETURN(writer, LogitsWriter::Create(*options.save_logits, header, windows));
  }
  std::optional<LogitsReader> saved;
  if (options.compare_logits) {
    QUIRE_ASSIGN_OR_RETURN(saved, LogitsReader::Open(*options.compare_logits));
    QUIRE_RETURN_IF_ERROR(CheckSameText(*saved, header, windows, *options.compare_logits));
  }

  PerplexityResult result;
  Mean loss;
  Mean divergence;
  int64_t same_best = 0;
  std::vector<float> rows(size_t{header.rows_per_window()} * header.vocab_size);
  for (uint32_t window_idx = 0; window_idx < header.num_windows; ++window_idx) {
    const auto window =
        std::span(windows).subspan(size_t{window_idx} * header.window, header.window);
    const int num_rows = static_cast<int>(header.rows_per_window());
    // The last token predicts nothing that is scored.
    QUIRE_RETURN_IF_ERROR(runner.ComputeRows(window.first(header.window - 1), num_rows, rows));
    for (int i = 0; i < num_rows; ++i) {
      const auto row =
          std::span<const float>(rows).subspan(size_t(i) * header.vocab_size, header.vocab_size);
      loss.Add(LogSumExp(row) - row[window[header.first_scored + i + 1]]);
      if (!saved) continue;
      const auto saved_row = saved->row(window_idx, i);
      const double row_divergence = Divergence(saved_row, row);
      divergence.Add(row_divergence);
      result.largest_divergence = std::max(result.largest_divergence, row_divergence);
      same_best += std::ranges::max_element(saved_row) - saved_row.begin() ==
                   std::ranges::max_element(row) - row.begin();
    }
    result.num_scored += num_rows;
    if (writer) QUIRE_RETURN_IF_ERROR(writer->Append(rows));
    if (progress && !progress(static_cast<int>(window_idx) + 1, header.num_windows)) {
      return MakeError(ErrorCode::kInterrupted, "interrupted after {} windows", window_idx + 1);
    }
  }
  if (writer) QUIRE_RETURN_IF_ERROR(writer->Finish());
  result.num_windows = static_cast<int>(header.num_windows);
  result.mean_loss = loss.mean();
  result.perplexity = exact::Exp(loss.mean());
  result.standard_error = loss.standard_error();
  result.mean_divergence = divergence.mean();
  result.divergence_error = divergence.standard_error();
  result.same_best_token =
      result.num_scored > 0 ? static_cast<double>(same_best) / result.num_scored : 0;
  return result;
}

}  // namespace quire
