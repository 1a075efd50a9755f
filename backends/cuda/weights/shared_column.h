// A single column as bytes in shared memory, included after the header of a type of the fragment
// layout.
#pragma once

#include "backends/cuda/device/column_bytes.h"
#include "backends/cuda/weights/fragment_sums.h"

namespace infer::cuda::INFER_TYPE {

/// The column in shared memory.
struct Bytes {
  static constexpr uint32_t kFloats = 2 + kSumRuns;  ///< of a tile
  SharedPtr<uint32_t> words;  ///< [tile][lane of four][4]: registers of B of both products
  SharedPtr<float> floats;    ///< [tile][kFloats]: two scales, then the sums of runs
};
INFER_DEVICE Bytes bytes_in_shared(uint32_t at, uint32_t tiles) {
  return {dynamic_shared<uint32_t>(at, tiles * 16),
          dynamic_shared<float>(at + tiles * 64, tiles * Bytes::kFloats)};
}

/// What a tile's floats are.
struct TileFloats {
  float scales[2];
  float sums[kRuns];  ///< nothing of types without offsets
};
INFER_DEVICE TileFloats load_floats(const SharedPtr<float>& floats, uint32_t tile) {
  const uint32_t at = tile * Bytes::kFloats;
  TileFloats of{};
  if constexpr (kSumRuns == 2) {
    const float4 all = load_shared<float4>(floats, at);
    of.scales[0] = all.x;
    of.scales[1] = all.y;
    of.sums[0] = all.z;
    of.sums[1] = all.w;
    return of;
  }
  const float2 scales = load_shared<float2>(floats, at);
  of.scales[0] = scales.x;
  of.scales[1] = scales.y;
  if constexpr (kSumRuns == 4) {
    const float2 two = load_shared<float2>(floats, at + 2);
    const float2 others = load_shared<float2>(floats, at + 4);
    of.sums[0] = two.x;
    of.sums[1] = two.y;
    of.sums[2] = others.x;
    of.sums[3] = others.y;
  }
  return of;
}

/// Four elements from element i on.
INFER_DEVICE float4 whole_four(uint64_t address, uint64_t i, bool aligned) {
  const Global<const float> x(address + i * sizeof(float));
  if (aligned) return load_as<float4>(x, 0);
  return {x[0], x[1], x[2], x[3]};
}

/// Rounds tiles [first, end) of the column, which begins at p.x[from]. Four lanes have 32
/// neighbours: K is of whole blocks of the type, of so many elements at least.
INFER_DEVICE void round_tiles(const ProductParams& p, uint32_t from, float factor, const Bytes& x,
                              uint32_t first, uint32_t end) {
  const uint32_t m = lane() / 4 % 2;
  const uint32_t part = lane() % 4;
  // Words 2m + part / 2 of the lanes 2 (part mod 2) and the next one.
  const uint32_t word = part % 2 * 8 + 2 * m + part / 2;
#pragma unroll 1
  for (; first < end; first += 4) {
    const uint32_t own = first + lane() / 8;
    const uint32_t k = own * 64 + m * 32 + part * 8;
    const float4 zero{0, 0, 0, 0};
    float4 v[2] = {zero, zero};
    if (own < end && k < p.k) {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        v[i] = whole_four(p.x, uint64_t{from} + k + 4 * i, p.aligned != 0);
        if (p.normed != 0) v[i] = scaled(v[i], factor);
        if (p.norm != 0) v[i] = scaled(v[i], whole_four(p.norm, k + 4 * i, p.norm % 16 == 0));
      }
    }
    uint32_t most = larger_of(most_bits(v[0]), most_bits(v[1]));
    most = larger_of(most, shuffle_xor(most, 1));
    most = larger_of(most, shuffle_xor(most, 2));
    const BytesScale scale = bytes_scale(float_of(most));
    const uint32_t words[2] = {four_bytes(v[0], scale), four_bytes(v[1], scale)};
    int32_t sum = 0;
    if constexpr (Weights::kLeast) {
      sum = dot4(words[1], 0x01010101u, dot4(words[0], 0x01010101u, 0));
      sum += shuffle_xor(sum, 1);
      if constexpr (Weights::kRun == 32) sum += shuffle_xor(sum, 2);
    }
    if (own >= end) continue;
    const uint32_t at = own * 16 + word;
    x.words[at] = words[0];
    x.words[at + 4] = words[1];
    const uint32_t floats = own * Bytes::kFloats;
    if (part == 0) x.floats[floats + m] = scale.scale;
    if constexpr (Weights::kLeast) {
      constexpr uint32_t kOfRun = Weights::kRun / 8;  // lanes
      if (part % kOfRun == 0) {
        x.floats[floats + 2 + m * (kRuns / 2) + part / kOfRun] = negative_sum(scale.scale, sum);
      }
    }
  }
}

/// The same of a column that is bytes already.
INFER_DEVICE void bring_tiles(const ProductParams& p, const Bytes& x, uint32_t first,
                              uint32_t end) {
  const Global<const uint32_t> words(p.bytes.words);
  // A kernel is short: code that is long takes longer to come than it saves.
#pragma unroll 2
  for (uint32_t i = first * 4 + lane(); i < end * 4; i += 32) {
    store_shared<uint4>(x.words, i * 4, load_as<uint4>(words, i * 4));
  }
  const Global<const float> scales(p.bytes.scales);
  const Global<const float> sums(p.bytes.sums);
#pragma unroll 1
  for (uint32_t i = first + lane(); i < end; i += 32) {
    const uint32_t to = i * Bytes::kFloats;
    store_shared<float2>(x.floats, to, load_as<float2>(scales, i * 4));
    if constexpr (kSumRuns > 0) {
      store_shared<float2>(x.floats, to + 2, load_as<float2>(sums, i * kSumRuns));
    }
    if constexpr (kSumRuns == 4) {
      store_shared<float2>(x.floats, to + 4, load_as<float2>(sums, i * 4 + 2));
    }
  }
}

/// Asks for elements [i, end) of the norm's weight.
INFER_DEVICE void ask_for_norm(const ProductParams& p, uint32_t i, uint32_t end) {
  constexpr uint32_t kSector = 8;  // elements of 32 bytes
  end = end < p.k ? end : p.k;
#pragma unroll 1
  for (i += lane() * kSector; i < end; i += 32 * kSector) {
    ask_for(Global<const float>(p.norm), i, sizeof(float));
  }
}

}  // namespace infer::cuda::INFER_TYPE
