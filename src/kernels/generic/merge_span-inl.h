// Merging the partials of spans: reads two partials and writes one, 12 bytes a dimension for one
// FMA and one multiplication, once for each 128 keys. The factors of all queries of a tile are two
// exponentials: one after the other they would take as long as the rest.
//
// Included inside the namespace of an instruction set, after exp-inl.h.
#pragma once

namespace {

// values [value_dim] = values * factor + span_values * span_factor
QUIRE_FORCE_INLINE void MergeValues(float factor_of_all, float span_factor_of_all,
                                    const float* span_values, int value_dim, float* values) {
  const F32x16 factor = Set(factor_of_all);
  const F32x16 span_factor = Set(span_factor_of_all);
  int d = 0;
  for (; d + 16 <= value_dim; d += 16) {
    const F32x16 added = Mul(Load(span_values + d), span_factor);
    Store(Fma(Load(values + d), factor, added), values + d);
  }
  if (d < value_dim) {
    const int rest = value_dim - d;
    const F32x16 added = Mul(LoadFirst(span_values + d, rest), span_factor);
    StoreFirst(Fma(LoadFirst(values + d, rest), factor, added), values + d, rest);
  }
}

}  // namespace

void MergeSpan(const SpanMergeJob& job) {
  static_assert(kMaxSpanQueries < 16);
  const int n = job.num_queries;
  const F32x16 maxima = LoadFirst(job.maxima, n);
  const F32x16 span_maxima = LoadFirst(job.span_maxima, n);
  const F32x16 merged = Max(span_maxima, maxima);
  const F32x16 factor = Exp(Sub(maxima, merged));
  const F32x16 span_factor = Exp(Sub(span_maxima, merged));
  StoreFirst(merged, job.maxima, n);
  const F32x16 added = Mul(LoadFirst(job.span_sums, n), span_factor);
  StoreFirst(Fma(LoadFirst(job.sums, n), factor, added), job.sums, n);
  alignas(64) float factors[16];
  alignas(64) float span_factors[16];
  Store(factor, factors);
  Store(span_factor, span_factors);
  for (int q = 0; q < n; ++q) {
    MergeValues(factors[q], span_factors[q],
                job.span_values + static_cast<size_t>(q) * job.value_dim, job.value_dim,
                job.values[q]);
  }
}

void FinishAttention(float* values, float sum, int value_dim) {
  const F32x16 inverse = Set(1.0f / sum);
  int d = 0;
  for (; d + 16 <= value_dim; d += 16) Store(Mul(Load(values + d), inverse), values + d);
  if (d < value_dim) {
    const int rest = value_dim - d;
    StoreFirst(Mul(LoadFirst(values + d, rest), inverse), values + d, rest);
  }
}
