#include "models/pack.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>

#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "kernels/packing.h"
#include "tensor/dequantize.h"

namespace quire {
namespace {

// Rows of one weight that are hashed and packed together. Chunks are part of the digest's
// definition: whole row blocks of at most kChunkBytes (at least one row block).
constexpr size_t kChunkBytes = size_t{1} << 20;

struct Chunk {
  size_t weight_idx = 0;
  int first_row = 0;
  int num_rows = 0;
};

int RowsPerChunk(const PlannedWeight& weight) {
  const size_t row_bytes = RowBytes(weight.dtype, weight.num_cols);
  const size_t row_blocks = std::max<size_t>(1, kChunkBytes / (row_bytes * kPackRows));
  return static_cast<int>(std::min<size_t>(row_blocks * kPackRows, 1 << 30));
}

// Chunks of all weights, in the plan's order.
std::vector<Chunk> CutIntoChunks(const WeightPlan& plan) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const PlannedWeight& weight = plan.weights[i];
    const int step = RowsPerChunk(weight);
    for (int row = 0; row < weight.num_rows; row += step) {
      chunks.push_back({i, row, std::min(step, weight.num_rows - row)});
    }
  }
  return chunks;
}

std::span<const std::byte> SourceBytes(const PlannedWeight& weight, const Chunk& chunk) {
  const size_t row_bytes = RowBytes(weight.dtype, weight.num_cols);
  return weight.source->data.subspan(chunk.first_row * row_bytes, chunk.num_rows * row_bytes);
}

void PackChunk(const PlannedWeight& weight, const Chunk& chunk, std::byte* packed) {
  const std::byte* source = SourceBytes(weight, chunk).data();
  if (!weight.is_matrix) {
    DequantizeRow(weight.dtype, source, weight.num_cols, reinterpret_cast<float*>(packed));
    return;
  }
  const size_t row_bytes = RowBytes(weight.dtype, weight.num_cols);
  const size_t block_bytes = PackedRowBlockBytes(weight.dtype, weight.num_cols);
  for (int row = 0; row < chunk.num_rows; row += kPackRows) {
    PackRowBlock(weight.dtype, source + row * row_bytes, row_bytes,
                 std::min(kPackRows, chunk.num_rows - row), weight.num_cols,
                 packed + (chunk.first_row + row) / kPackRows * block_bytes);
  }
}

// A leaf of the digest tree: what the tensor is, then the digests of its chunks.
std::vector<Digest> TensorDigests(const WeightPlan& plan, const std::vector<Chunk>& chunks,
                                  const std::vector<Digest>& chunk_digests) {
  std::vector<Digest> digests(plan.weights.size());
  size_t chunk_idx = 0;
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const PlannedWeight& weight = plan.weights[i];
    Sha256 hash;
    hash.Add(uint64_t{weight.name.size()}).Add(weight.name);
    hash.Add(uint64_t{static_cast<uint32_t>(weight.dtype)});
    hash.Add(static_cast<uint64_t>(weight.num_rows)).Add(static_cast<uint64_t>(weight.num_cols));
    for (; chunk_idx < chunks.size() && chunks[chunk_idx].weight_idx == i; ++chunk_idx) {
      hash.Add(chunk_digests[chunk_idx]);
    }
    digests[i] = hash.Finish();
  }
  return digests;
}

// The root: the leaves in the order of the tensors' names.
Digest RootDigest(const WeightPlan& plan, const std::vector<Digest>& tensor_digests) {
  std::vector<size_t> order(plan.weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {},
                    [&](size_t i) -> const std::string& { return plan.weights[i].name; });
  Sha256 hash;
  hash.Add("quire weights 1").Add(uint64_t{order.size()});
  for (const size_t i : order) hash.Add(tensor_digests[i]);
  return hash.Finish();
}

void ReleaseSource(const GgufFile& file, const PlannedWeight& weight,
                   std::span<const std::byte> bytes) {
  const MappedFile& part = file.parts()[weight.source->part];
  part.Release(static_cast<size_t>(bytes.data() - part.bytes().data()), bytes.size());
}

}  // namespace

Result<Pack> PackWeights(const GgufFile& file, const WeightPlan& plan, ThreadPool& pool,
                         const PackProgress& progress) {
  Pack pack;
  QUIRE_ASSIGN_OR_RETURN(pack.memory, HugeBuffer::Allocate(plan.packed_bytes));
  const std::vector<Chunk> chunks = CutIntoChunks(plan);
  std::vector<Digest> chunk_digests(chunks.size());
  size_t source_bytes = 0;
  for (const PlannedWeight& weight : plan.weights) source_bytes += weight.source->data.size();
  std::atomic<size_t> done_bytes{0};
  std::atomic<bool> stopped{false};
  pool.ParallelFor(chunks.size(), 1, [&](size_t begin, size_t end, int thread_idx) {
    for (size_t i = begin; i < end && !stopped.load(std::memory_order_relaxed); ++i) {
      const PlannedWeight& weight = plan.weights[chunks[i].weight_idx];
      const auto source = SourceBytes(weight, chunks[i]);
      chunk_digests[i] = Sha256().Add(source).Finish();
      PackChunk(weight, chunks[i], pack.memory.data() + weight.offset);
      ReleaseSource(file, weight, source);
      const size_t done = done_bytes.fetch_add(source.size()) + source.size();
      // Thread 0 is the caller's: the only one that may talk to a terminal.
      if (thread_idx == 0 && progress && !progress(done, source_bytes)) stopped = true;
    }
  });
  // The last chunk may have been another thread's.
  if (!stopped && progress && !progress(source_bytes, source_bytes)) stopped = true;
  if (stopped) return MakeError(ErrorCode::kInterrupted, "packing the weights was interrupted");
  pack.tensor_digests = TensorDigests(plan, chunks, chunk_digests);
  pack.digest = RootDigest(plan, pack.tensor_digests);
  return pack;
}

Digest DigestWeights(const GgufFile& file, const WeightPlan& plan, ThreadPool& pool) {
  const std::vector<Chunk> chunks = CutIntoChunks(plan);
  std::vector<Digest> chunk_digests(chunks.size());
  pool.ParallelFor(chunks.size(), 1, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const PlannedWeight& weight = plan.weights[chunks[i].weight_idx];
      const auto source = SourceBytes(weight, chunks[i]);
      chunk_digests[i] = Sha256().Add(source).Finish();
      ReleaseSource(file, weight, source);
    }
  });
  return RootDigest(plan, TensorDigests(plan, chunks, chunk_digests));
}

}  // namespace quire
