// Q5_K: 256 weights in 8 sub-blocks of 32; value = (d·s)·q − dmin·m, q in 0..31; s and m as in
// k_scales.h. The low four bits of q lie as in Q4_K, the fifth of weight 32j + l in bit j of qh[l].
#pragma once

#include <cstring>

#include "engine/quant/k_search.h"
#include "engine/quant/quant.h"

namespace infer {

template <>
struct Codec<DType::q5_k> {
  struct Block {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
  };

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 256) {
      const Block& block = blocks[b];
      const float d = f16_to_f32(block.d);
      const float dmin = f16_to_f32(block.dmin);
      for (int j = 0; j < 8; ++j) {
        const KScale k = unpack_k_scale(block.scales, j);
        const float scale = d * static_cast<float>(k.scale);
        const float min = dmin * static_cast<float>(k.min);
        const uint8_t* qs = block.qs + j / 2 * 32;
        for (int l = 0; l < 32; ++l) {
          const int q = ((qs[l] >> (j % 2 * 4)) & 15) | (((block.qh[l] >> j) & 1) << 4);
          out[32 * j + l] = scale * static_cast<float>(q) - min;
        }
      }
    }
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    quantise(in, nullptr, blocks, count);
  }

  static void quantise(const float* in, const float* importance, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b, in += 256) {
      SearchBlock<256> search;
      const bool some = search.set(in, importance, Emphasis::root);
      if (importance != nullptr) importance += 256;
      if (!some) {
        blocks[b] = {};
        continue;
      }
      KScale scales[8];
      uint8_t q[256];
      search_affine<31, 8>(search, 63, blocks[b].d, blocks[b].dmin, scales, q);
      pack_k_scales(scales, blocks[b].scales);
      for (int i = 0; i < 128; ++i) {
        const uint8_t* weight = q + i / 32 * 64 + i % 32;
        blocks[b].qs[i] = static_cast<uint8_t>((weight[0] & 15) | ((weight[32] & 15) << 4));
      }
      std::memset(blocks[b].qh, 0, sizeof(blocks[b].qh));
      for (int i = 0; i < 256; ++i) {
        blocks[b].qh[i % 32] |= static_cast<uint8_t>((q[i] >> 4) << (i / 32));
      }
    }
  }
};

}  // namespace infer
