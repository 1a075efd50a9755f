#include "backends/vulkan/neighbours.h"

#include <cstring>
#include <vector>

#include "engine/quant/k_scales.h"
#include "engine/quant/q2_k.h"
#include "engine/quant/q3_k.h"
#include "engine/quant/q4_k.h"
#include "engine/quant/q5_0.h"
#include "engine/quant/q5_1.h"
#include "engine/quant/q5_k.h"
#include "engine/quant/q6_k.h"

namespace infer::vulkan {
namespace {

constexpr int kPieces = 8;  // of a block of 256

uint32_t word_at(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void put_word(uint32_t word, uint8_t* to) { std::memcpy(to, &word, sizeof(word)); }

/// 32 weights, of four bits each: in byte l the `shift` lowest bits are others'.
void arrange_four_bits(const uint8_t* from, int shift, uint8_t* to) {
  for (int j = 0; j < 16; ++j) {
    to[j] = static_cast<uint8_t>(((from[j] >> shift) & 15) | (((from[j + 16] >> shift) & 15) << 4));
  }
}

void arrange_two_bits(const uint8_t* from, int shift, uint8_t* to) {
  for (int u = 0; u < 2; ++u) {
    uint32_t word = 0;
    for (int s = 0; s < 4; ++s) {
      word |= ((word_at(from + 16 * u + 4 * s) >> shift) & 0x03030303u) << (2 * s);
    }
    put_word(word, to + 4 * u);
  }
}

void arrange_one_bit(const uint8_t* from, int shift, uint8_t* to) {
  uint32_t word = 0;
  for (int m = 0; m < 8; ++m) word |= ((word_at(from + 4 * m) >> shift) & 0x01010101u) << m;
  put_word(word, to);
}

/// 32 bits, that of weight l in bit l.
void arrange_bits(uint8_t* bits) {
  const uint32_t all = word_at(bits);
  uint32_t word = 0;
  for (int m = 0; m < 8; ++m) {
    const uint32_t four = (all >> (4 * m)) & 15;
    word |= ((four * 0x00204081u) & 0x01010101u) << m;  // bit t to byte t
  }
  put_word(word, bits);
}

void arrange_k_scales(uint8_t* scales) {
  uint32_t low = 0, low_offset = 0, upper = 0;
  for (int p = 0; p < kPieces; ++p) {
    const KScale k = unpack_k_scale(scales, p);
    low |= static_cast<uint32_t>(k.scale & 15) << (4 * p);
    low_offset |= static_cast<uint32_t>(k.min & 15) << (4 * p);
    upper |= static_cast<uint32_t>((k.scale >> 4) | (k.min >> 4 << 2)) << (4 * p);
  }
  put_word(low, scales);
  put_word(low_offset, scales + 4);
  put_word(upper, scales + 8);
}

void arrange(Codec<DType::q5_0>::Block& block) {
  arrange_bits(reinterpret_cast<uint8_t*>(&block.qh));
}
void arrange(Codec<DType::q5_1>::Block& block) {
  arrange_bits(reinterpret_cast<uint8_t*>(&block.qh));
}

void arrange(Codec<DType::q2_k>::Block& block) {
  const auto stored = block;
  for (int p = 0; p < kPieces; ++p) {
    arrange_two_bits(stored.qs + p / 4 * 32, p % 4 * 2, block.qs + 8 * p);
  }
}

void arrange(Codec<DType::q3_k>::Block& block) {
  const auto stored = block;
  std::memset(block.scales, 0, sizeof(block.scales));
  for (int p = 0; p < kPieces; ++p) {
    arrange_two_bits(stored.qs + p / 4 * 32, p % 4 * 2, block.qs + 8 * p);
    arrange_one_bit(stored.hmask, p, block.hmask + 4 * p);
    for (int r = 0; r < 2; ++r) {
      const int j = 2 * p + r;
      const int low = (stored.scales[j % 8] >> (j / 8 * 4)) & 15;
      const int upper = (stored.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
      block.scales[p] |= static_cast<uint8_t>(low << (4 * r));
      block.scales[8 + p / 2] |= static_cast<uint8_t>(upper << (p % 2 * 4 + 2 * r));
    }
  }
}

void arrange(Codec<DType::q4_k>::Block& block) {
  const auto stored = block;
  arrange_k_scales(block.scales);
  for (int p = 0; p < kPieces; ++p) {
    arrange_four_bits(stored.qs + p / 2 * 32, p % 2 * 4, block.qs + 16 * p);
  }
}

void arrange(Codec<DType::q5_k>::Block& block) {
  const auto stored = block;
  arrange_k_scales(block.scales);
  for (int p = 0; p < kPieces; ++p) {
    arrange_four_bits(stored.qs + p / 2 * 32, p % 2 * 4, block.qs + 16 * p);
    arrange_one_bit(stored.qh, p, block.qh + 4 * p);
  }
}

void arrange(Codec<DType::q6_k>::Block& block) {
  const auto stored = block;
  for (int p = 0; p < kPieces; ++p) {
    arrange_four_bits(stored.ql + p / 4 * 64 + p % 2 * 32, p % 4 / 2 * 4, block.ql + 16 * p);
    arrange_two_bits(stored.qh + p / 4 * 32, p % 4 * 2, block.qh + 8 * p);
  }
}

/// gpu::PackFn of a type that is put into another order.
template <DType kType>
void pack_arranged(const gpu::WeightLayout& layout, const std::byte* stored, int64_t stride,
                   int64_t rows, int64_t blocks, std::byte* out,
                   const std::array<int64_t, gpu::kMaxPlanes>& starts) {
  using Block = typename Codec<kType>::Block;
  std::vector<Block> arranged(static_cast<size_t>(rows * blocks));
  for (int64_t r = 0; r < rows; ++r) {
    Block* const row = arranged.data() + r * blocks;
    std::memcpy(row, stored + r * stride, static_cast<size_t>(blocks) * sizeof(Block));
    for (int64_t b = 0; b < blocks; ++b) arrange(row[b]);
  }
  gpu::WeightLayout(layout.desc)
      .pack(layout, reinterpret_cast<const std::byte*>(arranged.data()),
            blocks * static_cast<int64_t>(sizeof(Block)), rows, blocks, out, starts);
}

}  // namespace

gpu::WeightLayout weight_layout(const TensorDesc& desc) {
  gpu::WeightLayout layout(desc);
  switch (desc.type) {
    case DType::q5_0: layout.pack = pack_arranged<DType::q5_0>; break;
    case DType::q5_1: layout.pack = pack_arranged<DType::q5_1>; break;
    case DType::q2_k: layout.pack = pack_arranged<DType::q2_k>; break;
    case DType::q3_k: layout.pack = pack_arranged<DType::q3_k>; break;
    case DType::q4_k: layout.pack = pack_arranged<DType::q4_k>; break;
    case DType::q5_k: layout.pack = pack_arranged<DType::q5_k>; break;
    case DType::q6_k: layout.pack = pack_arranged<DType::q6_k>; break;
    default: break;
  }
  return layout;
}

}  // namespace infer::vulkan
