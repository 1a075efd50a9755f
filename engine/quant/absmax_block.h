// What NF4 and FP4 share: blocks of 64 weights with the largest magnitude of them in float32 and an
// index into sixteen levels for each; value = absmax·level. Byte j of either half of 16 bytes holds
// weight j of its 32 in its low and weight j + 16 in its high nibble.
//
// Dettmers et al. 2023, "QLoRA", section 3; Dettmers & Zettlemoyer 2023 for FP4. The blocks are
// those of bitsandbytes with the default block size; larger ones repeat their scale.
#pragma once

#include <bit>

#include "engine/quant/quant.h"
#include "engine/quant/search.h"

namespace infer {

/// `Levels`: kValues[16] by code; kAscending[16], the codes in the order of their values.
template <typename Levels>
struct AbsmaxCodec {
  static constexpr int kElements = 64;

  struct Block {
    uint16_t absmax[2];  ///< of a float32, the lower half first
    uint8_t qs[32];
  };

  static float absmax(const Block& block) {
    return std::bit_cast<float>(uint32_t{block.absmax[0]} | uint32_t{block.absmax[1]} << 16);
  }

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += kElements) {
      const float scale = absmax(blocks[b]);
      for (int i = 0; i < kElements / 2; ++i) {
        const int to = i / 16 * 32 + i % 16;
        out[to] = Levels::kValues[blocks[b].qs[i] & 15] * scale;
        out[to + 16] = Levels::kValues[blocks[b].qs[i] >> 4] * scale;
      }
    }
  }

  /// As bitsandbytes does it: the largest magnitude is the scale.
  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += kElements) {
      pack(in, std::fabs(extreme_of(in, kElements)), blocks[b]);
    }
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += kElements) {
      SearchBlock<kElements> search;
      const bool some = search.set(in, importance, Emphasis::square);
      pack(in,
           some ? search_scale<Nearest, kElements>(search.x, search.w, 0.12f, 6) * search.size : 0,
           blocks[b]);
      if (importance != nullptr) importance += kElements;
    }
  }

 private:
  static constexpr float level(int i) { return Levels::kValues[Levels::kAscending[i]]; }
  static constexpr float middle(int i) { return 0.5f * (level(i - 1) + level(i)); }

  /// For the search.
  struct Nearest {
    static constexpr float kEnds[2] = {-1, 1};
    static F4 nearest(F4 v) {
      F4 found = splat4(level(0));
      for (int i = 1; i < 16; ++i) {
        const float step = level(i) - level(i - 1);
        if (step > 0) found += v > splat4(middle(i)) ? splat4(step) : splat4(0);
      }
      return found;
    }
  };

  static void pack(const float* in, float scale, Block& block) {
    const auto bits = std::bit_cast<uint32_t>(scale);
    block.absmax[0] = static_cast<uint16_t>(bits);
    block.absmax[1] = static_cast<uint16_t>(bits >> 16);
    // Multiplied, as in bitsandbytes: between two levels that decides. The inverse of the smallest
    // scales is infinite.
    const float inverse = inverse_or_zero(scale);
    const bool finite = std::isfinite(inverse);
    float x[kElements];
    for (int i = 0; i < kElements; ++i) x[i] = finite ? in[i] * inverse : in[i] / scale;
    int32_t nearest[kElements] = {};  // in the order of the levels; for all at once, as vectors
    for (int next = 1; next < 16; ++next) {
      for (int i = 0; i < kElements; ++i) nearest[i] += x[i] > middle(next) ? 1 : 0;
    }
    const auto code = [&](int i) { return Levels::kAscending[nearest[i]]; };
    for (int i = 0; i < kElements / 2; ++i) {
      const int from = i / 16 * 32 + i % 16;
      block.qs[i] = static_cast<uint8_t>(code(from) | code(from + 16) << 4);
    }
  }
};

}  // namespace infer
