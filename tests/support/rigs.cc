#include "support/rigs.h"

#include <cmath>
#include <stdexcept>

#include "support/gguf_writer.h"

namespace quire::testing {
namespace {

constexpr int32_t kNormalToken = 1;
constexpr int32_t kControlToken = 3;

// A matrix [rows, cols] in the file's order.
class Matrix {
 public:
  Matrix(int rows, int cols) : rows_(rows), cols_(cols), values_(size_t(rows) * cols) {}

  float& at(int row, int col) { return values_[size_t(row) * cols_ + col]; }
  void AddTo(GgufWriter& writer, const std::string& name) const {
    writer.AddTensorF32(name, {static_cast<uint64_t>(cols_), static_cast<uint64_t>(rows_)},
                        values_);
  }

 private:
  int rows_;
  int cols_;
  std::vector<float> values_;
};

void AddVocabulary(GgufWriter& writer, const std::vector<RigToken>& tokens) {
  std::vector<std::string> texts;
  std::vector<int32_t> kinds;
  for (const RigToken& token : tokens) {
    texts.push_back(token.text);
    kinds.push_back(token.control ? kControlToken : kNormalToken);
  }
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", "gpt-2");
  writer.AddStrings("tokenizer.ggml.tokens", texts);
  writer.AddList("tokenizer.ggml.token_type", kinds);
  writer.AddStrings("tokenizer.ggml.merges", {});
  writer.Add("tokenizer.ggml.eos_token_id", uint32_t{0});
  writer.Add("tokenizer.ggml.add_bos_token", false);
}

void AddLlamaKeys(GgufWriter& writer, int dim, int ffn_dim, int heads, int context_length) {
  writer.AddString("general.architecture", "llama");
  writer.AddString("general.name", "rig");
  writer.Add("llama.block_count", uint32_t{1});
  writer.Add("llama.embedding_length", static_cast<uint32_t>(dim));
  writer.Add("llama.feed_forward_length", static_cast<uint32_t>(ffn_dim));
  writer.Add("llama.context_length", static_cast<uint32_t>(context_length));
  writer.Add("llama.attention.head_count", static_cast<uint32_t>(heads));
  writer.Add("llama.attention.head_count_kv", static_cast<uint32_t>(heads));
  writer.Add("llama.attention.layer_norm_rms_epsilon", 1e-6f);
}

void AddNorms(GgufWriter& writer, int dim) {
  const std::vector<float> ones(dim, 1.0f);
  for (const char* name :
       {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) {
    writer.AddTensorF32(name, {static_cast<uint64_t>(dim)}, ones);
  }
}

void AddFeedForward(GgufWriter& writer, int dim, int ffn_dim) {
  Matrix(ffn_dim, dim).AddTo(writer, "blk.0.ffn_gate.weight");
  Matrix(ffn_dim, dim).AddTo(writer, "blk.0.ffn_up.weight");
  Matrix(dim, ffn_dim).AddTo(writer, "blk.0.ffn_down.weight");
}

void Finish(const GgufWriter& writer, const std::filesystem::path& path) {
  if (!writer.Write(path)) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

void WriteMarkovModel(const std::filesystem::path& path, const std::vector<RigToken>& tokens,
                      const std::vector<std::vector<float>>& logits,
                      const std::string& chat_template) {
  const int num_tokens = static_cast<int>(tokens.size());
  const int num_rows = static_cast<int>(logits[0].size());
  const int dim = num_tokens % 2 == 0 ? num_tokens : num_tokens + 1;
  GgufWriter writer;
  AddLlamaKeys(writer, dim, dim, 1, 512);
  AddVocabulary(writer, tokens);
  if (!chat_template.empty()) writer.AddString("tokenizer.chat_template", chat_template);
  AddNorms(writer, dim);
  // After the norm the state is sqrt(dim) times a unit vector.
  Matrix embedding(num_rows, dim);
  Matrix output(num_rows, dim);
  for (int token = 0; token < num_tokens; ++token) {
    embedding.at(token, token) = 64;
    for (int row = 0; row < num_rows; ++row) {
      output.at(row, token) = logits[token][row] / std::sqrt(static_cast<float>(dim));
    }
  }
  embedding.AddTo(writer, "token_embd.weight");
  output.AddTo(writer, "output.weight");
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
    Matrix(dim, dim).AddTo(writer, std::string("blk.0.") + name + ".weight");
  }
  AddFeedForward(writer, dim, dim);
  Finish(writer, path);
}

void WriteCountModel(const std::filesystem::path& path, int dim, int context_length) {
  GgufWriter writer;
  AddLlamaKeys(writer, dim, dim, 1, context_length);
  std::vector<RigToken> tokens;
  for (int i = 0; i < dim; ++i) tokens.push_back({std::string(1, static_cast<char>('a' + i))});
  AddVocabulary(writer, tokens);
  AddNorms(writer, dim);
  Matrix embedding(dim, dim);
  Matrix value(dim, dim);
  Matrix attention_output(dim, dim);
  Matrix output(dim, dim);
  for (int i = 0; i < dim; ++i) {
    embedding.at(i, i) = 1;
    value.at(i, i) = 1;
    attention_output.at(i, i) = 100;
    output.at(i, i) = 10 / std::sqrt(static_cast<float>(dim));
  }
  embedding.AddTo(writer, "token_embd.weight");
  output.AddTo(writer, "output.weight");
  Matrix(dim, dim).AddTo(writer, "blk.0.attn_q.weight");
  Matrix(dim, dim).AddTo(writer, "blk.0.attn_k.weight");
  value.AddTo(writer, "blk.0.attn_v.weight");
  attention_output.AddTo(writer, "blk.0.attn_output.weight");
  AddFeedForward(writer, dim, dim);
  Finish(writer, path);
}

}  // namespace quire::testing
