// Keys and values as they lie in the cache: decoded to floats slice by slice, fetched ahead, and
// rounded to Q8_0 on their way in.
#pragma once

#include <cstring>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/simd/vec_impl.h"
#include "engine/graph/kv_geometry.h"

namespace infer::cpu {
namespace {

// As they lie in the cache; engine/quant has the same ones, with code that every instruction set
// shares and that must therefore not be compiled here.
struct StoredQ8_0 {
  uint16_t d;
  int8_t q[32];
};
struct StoredQ4_0 {
  uint16_t d;
  uint8_t q[16];
};

void decode_f16(float* y, const uint16_t* x, int64_t n) {
  int64_t i = 0;
  for (; i + kW <= n; i += kW) F::load_half(x + i).store(y + i);
  if (i < n) f16_to_f32(y + i, x + i, n - i);
}

/// The usual length, known to the compiler.
void decode_f16_slice(float* y, const uint16_t* x, int64_t) {
  for (int64_t i = 0; i < kAttentionSlice; i += kW) F::load_half(x + i).store(y + i);
}

void decode_q8_0(float* y, const StoredQ8_0* blocks, int64_t n) {
  for (int64_t b = 0; b < n / 32; ++b, y += 32) {
    const F d = half_value(blocks[b].d);
    for (int j = 0; j < 32; j += kW) (F::load_signed_bytes(blocks[b].q + j) * d).store(y + j);
  }
}

void decode_q4_0(float* y, const StoredQ4_0* blocks, int64_t n) {
  constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
  for (int64_t b = 0; b < n / 32; ++b, y += 32) {
    uint64_t q[2];
    std::memcpy(q, blocks[b].q, sizeof(q));
    const uint64_t levels[4] = {q[0] & kLow, q[1] & kLow, q[0] >> 4 & kLow, q[1] >> 4 & kLow};
    const auto* bytes = reinterpret_cast<const int8_t*>(levels);
    const F d = half_value(blocks[b].d);
    const F middle = F::set(8);
    for (int j = 0; j < 32; j += kW) ((F::load_signed_bytes(bytes + j) - middle) * d).store(y + j);
  }
}

int64_t cache_bytes(DType type, int64_t n) {
  switch (type) {
    case DType::f32: return n * 4;
    case DType::q8_0: return n / 32 * int64_t{sizeof(StoredQ8_0)};
    case DType::q4_0: return n / 32 * int64_t{sizeof(StoredQ4_0)};
    default: return n * 2;
  }
}

/// Elements of rows of a page: those that a slice holds.
struct Slice {
  int64_t begin;
  int64_t n;
};

/// Stored elements meet queries in small parts, for the sake of the fetches.
constexpr int64_t kPart = 16;

/// Asks for bytes [begin, end) of the next page's rows. All calls for a page together ask for the
/// whole of the next one, in its order.
void fetch(const CacheRows& rows, int64_t begin, int64_t end) {
  if (rows.next == nullptr) return;
  for (int64_t i = begin / 64 * 64; i < end; i += 64) __builtin_prefetch(rows.next + i, 0, 2);
}

template <typename Block, typename Fn>
void decode_rows(const CacheRows& rows, int64_t begin, int64_t end, int64_t offset, const Slice& s,
                 float* to, Fn fn) {
  const std::byte* from = rows.data + begin * rows.stride + offset;
  for (int64_t r = begin; r < end; ++r, from += rows.stride, to += kAttentionSlice) {
    fn(to, reinterpret_cast<const Block*>(from), s.n);
    for (int64_t i = s.n; i % kW != 0; ++i) to[i] = 0;
  }
}

/// The slice of rows [begin, end), zeros behind each up to a whole vector.
void decode(const CacheRows& rows, int64_t begin, int64_t end, const Slice& s, float* to) {
  const int64_t share = s.n * rows.stride / rows.dim;  // bytes of a row
  const int64_t before = s.begin * rows.stride / rows.dim * kPageTokens;
  fetch(rows, before + begin * share, before + end * share);
  const int64_t offset = cache_bytes(rows.type, s.begin);
  switch (rows.type) {
    case DType::f32:
      decode_rows<float>(rows, begin, end, offset, s, to, [](float* y, const float* x, int64_t n) {
        std::memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
      });
      break;
    case DType::f16:
      if (s.n == kAttentionSlice) {
        decode_rows<uint16_t>(rows, begin, end, offset, s, to, decode_f16_slice);
      } else {
        decode_rows<uint16_t>(rows, begin, end, offset, s, to, decode_f16);
      }
      break;
    case DType::bf16: decode_rows<uint16_t>(rows, begin, end, offset, s, to, bf16_to_f32); break;
    case DType::q8_0: decode_rows<StoredQ8_0>(rows, begin, end, offset, s, to, decode_q8_0); break;
    default: decode_rows<StoredQ4_0>(rows, begin, end, offset, s, to, decode_q4_0); break;
  }
}

/// The same bytes as the encoder of engine/quant.
void encode_q8_0(const float* x, std::byte* to, int64_t n) {
  auto* blocks = reinterpret_cast<StoredQ8_0*>(to);
  for (int64_t b = 0; b < n / 32; ++b, x += 32) {
    F most = F::zero();
    for (int i = 0; i < 32; i += kW) {
      const F v = F::load(x + i);
      most = F::max(most, F::max(v, F::zero() - v));
    }
    const float wide = most.highest() / 127;
    const float scale = wide < 65504.0f ? wide : 65504.0f;
    f32_to_f16(&blocks[b].d, &scale, 1);
    const float d = half_value(blocks[b].d).highest();
    const F inverse = F::set(d != 0 ? 1 / d : 0);
    float levels[32];
    for (int i = 0; i < 32; i += kW) {
      const F level = F::round(F::load(x + i) * inverse);
      F::min(F::max(level, F::set(-127)), F::set(127)).store(levels + i);
    }
    for (int j = 0; j < 32; ++j) blocks[b].q[j] = static_cast<int8_t>(static_cast<int>(levels[j]));
  }
}

}  // namespace
}  // namespace infer::cpu
