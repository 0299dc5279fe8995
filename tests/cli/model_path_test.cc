#include "cli/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/catalogue.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CacheDirectory, QuireCacheComesBeforeTheStandardPlaces) {
  const ScopedVariable home("HOME", "/h");
  const ScopedVariable xdg("XDG_CACHE_HOME", "/x");
  {
    const ScopedVariable cache("QUIRE_CACHE", "/q");
    EXPECT_EQ(CacheDirectory().value(), "/q");
    EXPECT_EQ(ModelsDirectory().value(), "/q/models");
  }
  const ScopedVariable cache("QUIRE_CACHE", "");
  EXPECT_EQ(CacheDirectory().value(), "/x/quire");
  const ScopedVariable relative("XDG_CACHE_HOME", "x");
  EXPECT_EQ(CacheDirectory().value(), "/h/.cache/quire");
  const ScopedVariable no_home("HOME", "");
  ASSERT_FALSE(CacheDirectory().ok());
  EXPECT_THAT(CacheDirectory().error().message, HasSubstr("set QUIRE_CACHE"));
}

std::string Refusal(const std::string& argument) {
  const auto resolved = ResolveModel(argument);
  if (resolved.ok()) return "resolved";
  EXPECT_EQ(resolved.error().code, ErrorCode::kNotFound);
  return resolved.error().message;
}

TEST(ResolveModel, AnExistingPathIsItself) {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "some.gguf";
  WriteFile(file, "x");
  EXPECT_EQ(ResolveModel(file.string()).value(), file);
}

TEST(ResolveModel, WhatTheModelsDirectoryHoldsIsFoundByItsListedName) {
  const ScratchDirectory scratch;
  const ScopedVariable cache("QUIRE_CACHE", scratch.path().string());
  const auto models = scratch.path() / "models";
  std::filesystem::create_directories(models / "hf/owner/repo");
  WriteFile(models / "mine.gguf", "x");
  WriteFile(models / "hf/owner/repo/a.gguf", "x");
  EXPECT_EQ(ResolveModel("mine.gguf").value(), models / "mine.gguf");
  EXPECT_EQ(ResolveModel("hf:owner/repo/a.gguf").value(), models / "hf/owner/repo/a.gguf");
  EXPECT_EQ(Refusal("hf:owner/repo/b.gguf"),
            "model 'hf:owner/repo/b.gguf' is not here yet; run: quire pull hf:owner/repo/b.gguf");
}

TEST(ResolveModel, ANameIsTheFileThatWasPulled) {
  const ScratchDirectory scratch;
  const ScopedVariable cache("QUIRE_CACHE", scratch.path().string());
  EXPECT_EQ(Refusal("gemma-3-270m"),
            "model 'gemma-3-270m' is not here yet; run: quire pull gemma-3-270m");
  const auto file = scratch.path() / "models" / FindInCatalogue("gemma-3-270m")->file;
  std::filesystem::create_directories(file.parent_path());
  WriteFile(file, "x");
  EXPECT_EQ(ResolveModel("gemma-3-270m").value(), file);
}

TEST(ResolveModel, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(Refusal("gemma-4"), AllOf(HasSubstr("'gemma-4'"), HasSubstr("gemma-3-270m, qwen")));
  EXPECT_THAT(Refusal(""), HasSubstr("known models"));
  EXPECT_EQ(Refusal("/nowhere/x.gguf"), "/nowhere/x.gguf: no such file");
  EXPECT_EQ(Refusal("x.gguf"), "x.gguf: no such file");
}

}  // namespace
}  // namespace quire
