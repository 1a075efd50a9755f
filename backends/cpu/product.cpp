#include "backends/cpu/product.h"

#include <cstring>

#include "backends/cpu/parallel.h"
#include "engine/quant/quant.h"

namespace infer::cpu {

Product Product::choose(const CpuContext& context, const TensorDesc& w) {
  const RowKernel* kernel = context.exact ? nullptr : context.row_kernel(w.type);
  return {kernel, w.type, w.shape[0]};
}

void decode_row(const VecOps& vec, DType type, const std::byte* w, float* out, int64_t n) {
  switch (type) {
    case DType::f32: std::memcpy(out, w, static_cast<size_t>(n) * sizeof(float)); break;
    case DType::f16: vec.f16_to_f32(out, reinterpret_cast<const uint16_t*>(w), n); break;
    case DType::bf16: vec.bf16_to_f32(out, reinterpret_cast<const uint16_t*>(w), n); break;
    default: quant_traits(type).decode(w, out, n); break;
  }
}

void Product::run(const CpuCall& call, const std::byte* w, int64_t stride, int64_t n,
                  const std::byte* const* x, float* const* y, int64_t columns,
                  std::byte* scratch) const {
  if (kernel != nullptr) {
    kernel->run(w, stride, n, k, x, y, columns);
    return;
  }
  const VecOps& vec = call.vec();
  const auto* rows = reinterpret_cast<const float* const*>(x);
  float sums[kPanel];
  for (int64_t i = 0; i < n; ++i) {
    const std::byte* row = w + i * stride;
    if (weights != DType::f32) {
      decode_row(vec, weights, row, reinterpret_cast<float*>(scratch), k);
      row = scratch;
    }
    vec.dot_columns(reinterpret_cast<const float*>(row), k, rows, sums, columns);
    for (int64_t c = 0; c < columns; ++c) y[c][i] = sums[c];
  }
}

void finish_rows(const VecOps& vec, float* const* y, int64_t columns, Range range,
                 const TensorRef& bias, const TensorRef& scale, int64_t expert) {
  const int64_t n = range.end - range.begin;
  for (int64_t c = 0; c < columns; ++c) {
    if (scale.data != nullptr) {
      vec.scale_mul(y[c], y[c], nullptr, scale.row<float>(0, 0)[expert], n);
    }
    if (bias.data != nullptr) {
      vec.add_scaled(y[c], y[c], bias.row<float>(expert, 0) + range.begin, 1.0f, n);
    }
  }
}

void quantise_rows(const CpuCall& call, const TensorRef& x, std::byte* to, int64_t row_bytes) {
  const int64_t blocks = x.desc.shape[0] / 32;
  const int64_t rows = x.desc.shape[1] * x.desc.shape[2];
  const Range range = split_range(rows * blocks, call.thread, call.threads());
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t row = at / blocks;
    const int64_t first = at % blocks;
    const int64_t last = first + std::min(range.end - at, blocks - first);
    call.vec().quantise(x.row<float>(row % x.desc.shape[1], row / x.desc.shape[1]),
                        to + row * row_bytes, x.desc.shape[0], first, last);
    at += last - first;
  }
}

}  // namespace infer::cpu
