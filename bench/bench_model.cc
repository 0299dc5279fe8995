// Prefill and decode of a whole model, one JSON line: what bench/compare.py puts beside its peers.
//
//   bench_model MODEL --threads 2 --prefill 256 --decode 64 --depth 0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "cli/engine_flags.h"
#include "engine/engine.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Shape {
  int prefill = 256;  // tokens computed as a prompt
  int decode = 64;    // tokens computed one by one
  int depth = 0;      // tokens already in the cache
};

// Arbitrary ids: the cost does not depend on them.
std::vector<int32_t> SomeTokens(int count, int vocab_size) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((i * 7919LL + 13) % vocab_size);
  return tokens;
}

// Tokens a second over `count` more tokens of a sequence that holds `depth` entries.
Result<double> Measure(Engine& engine, int depth, int count, bool one_by_one) {
  const std::vector<int32_t> tokens = SomeTokens(depth + count, engine.vocab_size());
  Sequence sequence = engine.NewSequence();
  sequence.SetTokens(std::span(tokens).first(depth));
  while (sequence.num_computed() < depth) QUIRE_RETURN_IF_ERROR(engine.Step(sequence));
  const Clock::time_point start = Clock::now();
  for (int i = depth; i < depth + count; i += one_by_one ? 1 : count) {
    sequence.SetTokens(std::span(tokens).first(one_by_one ? i + 1 : depth + count));
    while (sequence.num_computed() < sequence.num_tokens()) {
      QUIRE_RETURN_IF_ERROR(engine.Step(sequence));
    }
  }
  return count / SecondsSince(start);
}

Status Run(const EngineFlags& flags, const Shape& shape) {
  const Clock::time_point start = Clock::now();
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags));
  const double load_seconds = SecondsSince(start);
  // Pages of the cache and the scratch are touched before anything is timed.
  QUIRE_RETURN_IF_ERROR(Measure(*engine, shape.depth, std::max(shape.prefill, 16), false));
  double prefill = 0;
  double decode = 0;
  if (shape.prefill > 0) {
    QUIRE_ASSIGN_OR_RETURN(prefill, Measure(*engine, shape.depth, shape.prefill, false));
  }
  if (shape.decode > 0) {
    QUIRE_ASSIGN_OR_RETURN(decode, Measure(*engine, shape.depth, shape.decode, true));
  }
  fmt::print(
      "{{\"load_seconds\": {:.4f}, \"prefill_per_second\": {:.2f}, \"decode_per_second\": {:.2f}, "
      "\"kernels\": \"{}\"}}\n",
      load_seconds, prefill, decode, engine->kernels().name);
  return {};
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  CLI::App app("Prefill and decode speed of a model, as one JSON line", "bench_model");
  quire::EngineFlags flags;
  quire::Shape shape;
  quire::AddEngineFlags(app, flags);
  app.add_option("--prefill", shape.prefill, "prompt tokens; 0 = do not measure")
      ->capture_default_str();
  app.add_option("--decode", shape.decode, "tokens decoded; 0 = do not measure")
      ->capture_default_str();
  app.add_option("--depth", shape.depth, "tokens in the cache beforehand")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const quire::Status status = quire::Run(flags, shape);
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_model: {}\n", status.error().message);
  return 1;
}
