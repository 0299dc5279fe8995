// Merging the partials of spans: reads two partials and writes one, 12 bytes a dimension for one
// FMA and one multiplication, once for each 128 keys.
//
// Included inside the namespace of an instruction set, after exp-inl.h.
#pragma once

void MergeSpan(float* maximum, float* sum, float* values, float span_maximum, float span_sum,
               const float* span_values, int value_dim) {
  const float merged = span_maximum > *maximum ? span_maximum : *maximum;
  const F32x16 factor = Exp(Set(*maximum - merged));
  const F32x16 span_factor = Exp(Set(span_maximum - merged));
  *maximum = merged;
  *sum = __builtin_fmaf(*sum, FirstLane(factor), span_sum * FirstLane(span_factor));
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

void FinishAttention(float* values, float sum, int value_dim) {
  const F32x16 inverse = Set(1.0f / sum);
  int d = 0;
  for (; d + 16 <= value_dim; d += 16) Store(Mul(Load(values + d), inverse), values + d);
  if (d < value_dim) {
    const int rest = value_dim - d;
    StoreFirst(Mul(LoadFirst(values + d, rest), inverse), values + d, rest);
  }
}
