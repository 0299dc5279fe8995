// A directory for one test, and shorthands to write a file into it and open it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "support/gguf_writer.h"

namespace quire::testing {

class GgufTest : public ::testing::Test {
 protected:
  GgufTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire-gguf-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~GgufTest() override {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }

  std::filesystem::path Path(std::string_view name) const { return directory_ / name; }

  Result<GgufFile> OpenBytes(std::string_view bytes, std::string_view name = "model.gguf") const {
    EXPECT_TRUE(WriteBytes(Path(name), bytes));
    return GgufFile::Open(Path(name));
  }
  Result<GgufFile> Open(const GgufWriter& writer) const { return OpenBytes(writer.Bytes()); }

  // The error of a file that must not open.
  Error ErrorOfBytes(std::string_view bytes) const {
    const auto file = OpenBytes(bytes);
    if (!file.ok()) return file.error();
    ADD_FAILURE() << "opened";
    return Error{ErrorCode::kIo, "opened"};
  }
  Error ErrorOf(const GgufWriter& writer) const { return ErrorOfBytes(writer.Bytes()); }

  std::filesystem::path directory_;
};

// Metadata of every kind and three tensors; nothing follows the last tensor's last byte.
inline GgufWriter SmallModel() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.Add("llama.block_count", uint32_t{2});
  writer.Add("llama.rope.freq_base", 10000.0f);
  writer.Add("tokenizer.ggml.add_bos_token", true);
  writer.AddStrings("tokenizer.ggml.tokens", {"<s>", "a", "", "\xff"});
  writer.AddList<float>("tokenizer.ggml.scores", {0.0f, -1.5f, 2.0f, 0.25f});
  writer.AddList<int32_t>("tokenizer.ggml.token_type", {3, 1, 1, 6});
  writer.AddList<bool>("llama.layer_flags", {true, false});
  const std::vector<float> norm = {1, 2, 3, 4, 5, 6, 7, 8};
  writer.AddTensorF32("output_norm.weight", {8}, norm);
  writer.AddTensor("blk.0.ffn_up.weight", 2, {32, 3}, std::string(3 * 18, '\x3c'));
  writer.AddTensorF32("blk.0.attn_norm.weight", {4, 2}, norm);
  return writer;
}

}  // namespace quire::testing
