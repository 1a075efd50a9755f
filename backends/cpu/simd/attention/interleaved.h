// Keys in blocks of 32, interleaved as a kernel of products reads weights (packing.h): queries
// rounded to 8 bits then meet them as activations meet weights.
#pragma once

#include <cstring>

#include "backends/cpu/simd/attention/cache_rows.h"
#include "backends/cpu/simd/plain.h"

namespace infer::cpu {
namespace {

/// Keys whose blocks have kWords words of 4 bytes after a scale of 2 bytes.
template <int kWords>
void interleave_blocks(const CacheRows& keys, Visible any, std::byte* to) {
  constexpr int64_t kRows = Ints::kLanes;
  constexpr int64_t kBytes = 2 + 4 * kWords;
  constexpr int64_t kPiece = kWords < kW ? kWords : kW;  // words of a vector from one block
  const int64_t words = keys.dim / 32 * kWords;
  const int64_t begin = any.begin / kRows * kRows;
  const int64_t end = (any.end + kRows - 1) / kRows * kRows;
  const auto key = [&](int64_t j) { return keys.data + j * keys.stride; };
  const auto place = [](int64_t word) { return word / kWords * kBytes + 2 + word % kWords * 4; };
  /// Where the field at byte `offset` of a key goes, its size `bytes`.
  const auto interleaved = [&](int64_t j, int64_t offset, int64_t bytes) {
    return to + (j - j % kRows) * keys.stride + offset * kRows + j % kRows * bytes;
  };

  // Vector by vector of words: copied for all keys first, since what was just stored in pieces is
  // slow to load as a whole.
  float rows[kPageTokens * kW];
  float turned[kW * kW];
  fill(rows + begin * kW, rows + any.begin * kW, 0.0f);
  fill(rows + any.end * kW, rows + end * kW, 0.0f);
  for (int64_t word = 0; word < words; word += kW) {
    const int64_t count = lesser(kW, words - word);
    for (int64_t j = any.begin; j < any.end; ++j) {
      for (int64_t i = 0; i < count; i += kPiece) {
        std::memcpy(rows + j * kW + i, key(j) + place(word + i), 4 * kPiece);
      }
      fetch(keys, j * keys.stride + 4 * word, j * keys.stride + 4 * (word + count));
    }
    for (int64_t j = begin; j < end; j += kW) {
      F::transpose(rows + j * kW, kW, turned, kW);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(interleaved(j, place(word + i), 4), turned + i * kW, 4 * kW);
      }
    }
  }
  for (int64_t offset = 0; offset < keys.stride; offset += kBytes) {
    for (int64_t j = begin; j < end; ++j) {
      uint16_t scale = 0;
      if (j >= any.begin && j < any.end) std::memcpy(&scale, key(j) + offset, 2);
      std::memcpy(interleaved(j, offset, 2), &scale, 2);
    }
  }
}

void interleave_keys(const CacheRows& keys, Visible any, std::byte* to) {
  if (keys.type == DType::q8_0) {
    interleave_blocks<8>(keys, any, to);
  } else {
    interleave_blocks<4>(keys, any, to);
  }
}

}  // namespace
}  // namespace infer::cpu
