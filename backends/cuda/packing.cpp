#include "backends/cuda/packing.h"

#include <cstring>

#include "backends/cuda/weights/words.h"
#include "engine/quant/quant.h"

namespace infer::cuda {
namespace {

using gpu::kMaxPlanes;
using gpu::PackedForm;
using gpu::WeightLayout;

/// The codes of one block of the layout: [row][element].
constexpr int64_t kMostElements = 256;
using Codes = uint8_t[kTileRows][kMostElements];

/// How a lane's codes of a row in a tile become words. Register q is 2m + j: element 32m + 16j + 4t
/// and the three that follow (packing.h).
enum class Words : uint8_t {
  bytes,  ///< a register is a word
  pairs,  ///< word j: register j in the low nibbles, register 2 + j in the high ones
  runs,   ///< word j: the same in the low and the high half, nibble i for byte i
  sixes,  ///< register q < 3 in the upper six bits of the bytes of word q; in the two below,
          ///< register 3: its upper bits in word 0
  twos,   ///< register q in bits 2q, 2q + 1 of the bytes
};
int64_t words_of_row(Words form) {
  switch (form) {
    case Words::bytes: return 4;
    case Words::pairs:
    case Words::runs: return 2;
    case Words::sixes: return 3;
    case Words::twos: return 1;
  }
  return 0;
}

/// What a type's blocks are made of.
struct Form {
  int64_t elements;  ///< of a block of the layout
  Words words;
  bool single_bits;  ///< one bit of each code lies in a word of its own: bit 4h + q of byte i
  /// The codes of one stored row's block; `bits`: those that lie apart.
  void (*codes)(const uint8_t* block, uint8_t* codes, uint8_t* bits);
  /// The scales of all rows, into planes 1 and up (2 and up with single bits). Rows from `rows` on
  /// are zero already.
  void (*scales)(const uint8_t* const* blocks, int64_t rows, uint8_t* const* planes);
  std::array<int64_t, 3> scale_bytes;  ///< of those planes; 0: there is none
};

// ---- codes

/// Byte j of 16: element j in the low and element j + 16 in the high nibble.
template <int kOffset, int kFlip>
void nibbles_32(const uint8_t* block, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = block[kOffset + j] ^ (kFlip * 0x11);
    codes[j] = q & 15;
    codes[j + 16] = q >> 4;
  }
}
template <int kBytes, int kOffset, int kFlip>
void nibbles_of_two(const uint8_t* block, uint8_t* codes, uint8_t*) {
  nibbles_32<kOffset, kFlip>(block, codes);
  nibbles_32<kOffset, kFlip>(block + kBytes, codes + 32);
}

/// Q5_0 and Q5_1: the fifth bits in a word.
template <int kBytes, int kWord>
void fives_of_two(const uint8_t* block, uint8_t* codes, uint8_t* bits) {
  for (int b = 0; b < 2; ++b, block += kBytes, codes += 32, bits += 32) {
    nibbles_32<kWord + 4, 0>(block, codes);
    uint32_t word = 0;
    std::memcpy(&word, block + kWord, sizeof(word));
    for (int j = 0; j < 32; ++j) bits[j] = (word >> j) & 1;
  }
}

void bytes_of_two(const uint8_t* block, uint8_t* codes, uint8_t*) {
  std::memcpy(codes, block + 2, 32);
  std::memcpy(codes + 32, block + 36, 32);
}

/// Byte 32c + l: element 64c + l in the low and 64c + 32 + l in the high nibble.
void nibbles_k(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 128; ++i) {
    codes[i / 32 * 64 + i % 32] = qs[i] & 15;
    codes[i / 32 * 64 + 32 + i % 32] = qs[i] >> 4;
  }
}

void codes_q4_k(const uint8_t* block, uint8_t* codes, uint8_t*) { nibbles_k(block + 16, codes); }

void codes_q5_k(const uint8_t* block, uint8_t* codes, uint8_t* bits) {
  nibbles_k(block + 48, codes);
  for (int i = 0; i < 256; ++i) bits[i] = (block[16 + i % 32] >> (i / 32)) & 1;
}

/// Less 32, as six bits of two's complement.
void codes_q6_k(const uint8_t* block, uint8_t* codes, uint8_t*) {
  for (int i = 0; i < 256; ++i) {
    const int h = i / 128;
    const int k = i / 32 % 4;
    const int l = i % 32;
    const int low = (block[64 * h + 32 * (k % 2) + l] >> (k / 2 * 4)) & 15;
    const int high = (block[128 + 32 * h + l] >> (2 * k)) & 3;
    codes[i] = static_cast<uint8_t>((low | high << 4) ^ 32);
  }
}

void twos_k(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 256; ++i) {
    codes[i] = (qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
  }
}

void codes_q2_k(const uint8_t* block, uint8_t* codes, uint8_t*) { twos_k(block + 16, codes); }

/// The third bits are turned over: with them as the sign, the level is less 4.
void codes_q3_k(const uint8_t* block, uint8_t* codes, uint8_t* bits) {
  twos_k(block + 32, codes);
  for (int i = 0; i < 256; ++i) bits[i] = ((block[i % 32] >> (i / 32)) & 1) ^ 1;
}

void codes_iq4_xs(const uint8_t* block, uint8_t* codes, uint8_t*) {
  for (int b = 0; b < 8; ++b) nibbles_32<0, 0>(block + 8 + 16 * b, codes + 32 * b);
}

void codes_absmax(const uint8_t* block, uint8_t* codes, uint8_t*) {
  nibbles_32<4, 0>(block, codes);
  nibbles_32<20, 0>(block, codes + 32);
}

void codes_nvfp4(const uint8_t* block, uint8_t* codes, uint8_t*) {
  for (int s = 0; s < 4; ++s) {
    for (int j = 0; j < 8; ++j) {
      const uint8_t q = block[4 + 8 * s + j];
      codes[16 * s + j] = q & 15;
      codes[16 * s + 8 + j] = q >> 4;
    }
  }
}

// ---- scales: rows g and g + 8 side by side

int64_t beside(int64_t row) { return row % 8 * 2 + row / 8; }

/// kCount pieces of kBytes bytes, the first at kOffset and each kStep bytes further.
template <int kBytes, int kOffset, int kStep, int kCount>
void pieces(const uint8_t* const* blocks, int64_t rows, uint8_t* plane) {
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* const to = plane + beside(r) * kBytes * kCount;
    for (int c = 0; c < kCount; ++c) {
      std::memcpy(to + c * kBytes, blocks[r] + kOffset + c * kStep, kBytes);
    }
  }
}
template <int kBytes, int kOffset, int kStep, int kCount>
void scales_of(const uint8_t* const* blocks, int64_t rows, uint8_t* const* planes) {
  pieces<kBytes, kOffset, kStep, kCount>(blocks, rows, planes[0]);
}

/// The signed scales of Q6_K as unsigned ones, 128 more.
void scales_q6_k(const uint8_t* const* blocks, int64_t rows, uint8_t* const* planes) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int i = 0; i < 16; ++i) planes[0][beside(r) * 16 + i] = blocks[r][192 + i] ^ 128;
  }
  pieces<2, 208, 0, 1>(blocks, rows, planes[1]);
}

void scales_q2_k(const uint8_t* const* blocks, int64_t rows, uint8_t* const* planes) {
  pieces<16, 0, 0, 1>(blocks, rows, planes[0]);
  pieces<4, 80, 0, 1>(blocks, rows, planes[1]);
}

/// Three words of 6-bit scales: [g][word][row].
void scales_q3_k(const uint8_t* const* blocks, int64_t rows, uint8_t* const* planes) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int w = 0; w < 3; ++w) {
      std::memcpy(planes[0] + (r % 8 * 6 + w * 2 + r / 8) * 4, blocks[r] + 96 + 4 * w, 4);
    }
  }
  pieces<2, 108, 0, 1>(blocks, rows, planes[1]);
}

const Form* form_of(DType type) {
  static constexpr Form kQ40{
      64, Words::pairs, false, nibbles_of_two<18, 2, 8>, scales_of<2, 0, 18, 2>, {64, 0, 0}};
  static constexpr Form kQ41{
      64, Words::pairs, false, nibbles_of_two<20, 4, 0>, scales_of<4, 0, 20, 2>, {128, 0, 0}};
  static constexpr Form kQ50{
      64, Words::pairs, true, fives_of_two<22, 2>, scales_of<2, 0, 22, 2>, {64, 0, 0}};
  static constexpr Form kQ51{
      64, Words::pairs, true, fives_of_two<24, 4>, scales_of<4, 0, 24, 2>, {128, 0, 0}};
  static constexpr Form kQ80{64,           Words::bytes,           false,
                             bytes_of_two, scales_of<2, 0, 34, 2>, {64, 0, 0}};
  static constexpr Form kQ4K{256,        Words::pairs,           false,
                             codes_q4_k, scales_of<16, 0, 0, 1>, {256, 0, 0}};
  static constexpr Form kQ5K{256,        Words::pairs,           true,
                             codes_q5_k, scales_of<16, 0, 0, 1>, {256, 0, 0}};
  static constexpr Form kQ6K{256, Words::sixes, false, codes_q6_k, scales_q6_k, {256, 32, 0}};
  static constexpr Form kQ2K{256, Words::twos, false, codes_q2_k, scales_q2_k, {256, 64, 0}};
  static constexpr Form kQ3K{256, Words::twos, true, codes_q3_k, scales_q3_k, {192, 32, 0}};
  static constexpr Form kIq4Nl{
      64, Words::runs, false, nibbles_of_two<18, 2, 0>, scales_of<2, 0, 18, 2>, {64, 0, 0}};
  static constexpr Form kIq4Xs{256,          Words::runs,           false,
                               codes_iq4_xs, scales_of<8, 0, 0, 1>, {128, 0, 0}};
  static constexpr Form kMxfp4{
      64, Words::runs, false, nibbles_of_two<17, 1, 0>, scales_of<1, 0, 17, 2>, {32, 0, 0}};
  static constexpr Form kAbsmax{64,           Words::runs,           false,
                                codes_absmax, scales_of<4, 0, 0, 1>, {64, 0, 0}};
  static constexpr Form kNvfp4{64,          Words::runs,           false,
                               codes_nvfp4, scales_of<4, 0, 0, 1>, {64, 0, 0}};
  switch (type) {
    case DType::q4_0: return &kQ40;
    case DType::q4_1: return &kQ41;
    case DType::q5_0: return &kQ50;
    case DType::q5_1: return &kQ51;
    case DType::q8_0: return &kQ80;
    case DType::q4_k: return &kQ4K;
    case DType::q5_k: return &kQ5K;
    case DType::q6_k: return &kQ6K;
    case DType::q2_k: return &kQ2K;
    case DType::q3_k: return &kQ3K;
    case DType::iq4_nl: return &kIq4Nl;
    case DType::iq4_xs: return &kIq4Xs;
    case DType::mxfp4: return &kMxfp4;
    case DType::nf4:
    case DType::fp4: return &kAbsmax;
    case DType::nvfp4: return &kNvfp4;
    default: return nullptr;
  }
}

/// The four codes of register q of row g + 8h: those of lane (g, t), of tile `tile`.
struct Register {
  const uint8_t* row;
  int64_t first;

  Register(const Codes& codes, int64_t tile, int lane, int h, int q)
      : row(codes[lane / 4 + h * 8]), first(tile * kTileElements + q * 16 + lane % 4 * 4) {}
  /// Byte i has the low bits of code i.
  uint32_t bytes() const {
    uint32_t word = 0;
    std::memcpy(&word, row + first, sizeof(word));
    return word;
  }
  uint32_t nibbles() const {
    const uint32_t w = bytes();
    return (w & 15) | (w >> 4 & 0xf0) | (w >> 8 & 0xf00) | (w >> 12 & 0xf000);
  }
};

/// The words of a lane for row g + 8h of one tile.
void row_words(const Codes& codes, Words form, int64_t tile, int lane, int h, uint32_t* words) {
  const auto reg = [&](int q) { return Register(codes, tile, lane, h, q); };
  switch (form) {
    case Words::bytes:
      for (int q = 0; q < 4; ++q) words[q] = reg(q).bytes();
      break;
    case Words::pairs:
      for (int j = 0; j < 2; ++j) words[j] = reg(j).bytes() | reg(2 + j).bytes() << 4;
      break;
    case Words::runs:
      for (int j = 0; j < 2; ++j) words[j] = reg(j).nibbles() | reg(2 + j).nibbles() << 16;
      break;
    case Words::sixes:
      for (int q = 0; q < 3; ++q) {
        words[q] = reg(q).bytes() << 2 | (reg(3).bytes() >> (4 - 2 * q) & 0x03030303u);
      }
      break;
    case Words::twos:
      words[0] = 0;
      for (int q = 0; q < 4; ++q) words[0] |= reg(q).bytes() << 2 * q;
      break;
  }
}

/// Words of a lane lie in vectors of four; those of all lanes side by side.
void put_words(const Codes& codes, const Form& form, uint8_t* out) {
  const int64_t tiles = form.elements / kTileElements;
  const int64_t count = words_of_row(form.words);
  for (int lane = 0; lane < 32; ++lane) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      for (int h = 0; h < 2; ++h) {
        uint32_t words[4];
        row_words(codes, form.words, tile, lane, h, words);
        for (int64_t w = 0; w < count; ++w) {
          const int64_t place = word_place(
              static_cast<uint32_t>(count), static_cast<uint32_t>(tiles),
              static_cast<uint32_t>(tile), static_cast<uint32_t>(h), static_cast<uint32_t>(w));
          std::memcpy(out + ((place / 4 * 32 + lane) * 4 + place % 4) * 4, &words[w], 4);
        }
      }
    }
  }
}

/// A word for each tile: bit 4h + q of byte i.
void put_bits(const Codes& bits, const Form& form, uint8_t* out) {
  const int64_t tiles = form.elements / kTileElements;
  for (int lane = 0; lane < 32; ++lane) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      uint32_t word = 0;
      for (int r = 0; r < 8; ++r) {
        word |= Register(bits, tile, lane, r / 4, r % 4).bytes() << r;
      }
      std::memcpy(out + (lane * tiles + tile) * 4, &word, 4);
    }
  }
}

void pack(const WeightLayout& layout, const std::byte* stored, int64_t stride, int64_t rows,
          int64_t blocks, std::byte* out, const std::array<int64_t, kMaxPlanes>& starts) {
  const Form& form = *form_of(layout.desc.type);
  Codes codes;
  Codes bits;
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* of_row[kTileRows] = {};
    uint8_t* planes[kMaxPlanes] = {};
    for (size_t p = 0; p < layout.planes; ++p) {
      planes[p] = reinterpret_cast<uint8_t*>(out + starts[p] + b * layout.plane_bytes[p]);
    }
    std::memset(codes, 0, sizeof(codes));
    std::memset(bits, 0, sizeof(bits));
    for (int64_t r = 0; r < rows; ++r) {
      of_row[r] = reinterpret_cast<const uint8_t*>(stored) + r * stride + b * layout.block_bytes;
      form.codes(of_row[r], codes[r], bits[r]);
    }
    put_words(codes, form, planes[0]);
    if (form.single_bits) put_bits(bits, form, planes[1]);
    const size_t first = form.single_bits ? 2 : 1;
    for (size_t p = first; p < layout.planes; ++p) {
      std::memset(planes[p], 0, static_cast<size_t>(layout.plane_bytes[p]));
    }
    form.scales(of_row, rows, planes + first);
  }
}

}  // namespace

bool has_fragments(DType type) { return form_of(type) != nullptr; }

WeightLayout weight_layout(const TensorDesc& desc) {
  const Form* form = form_of(desc.type);
  if (form == nullptr) return WeightLayout(desc);
  std::array<int64_t, kMaxPlanes> bytes{};
  size_t planes = 0;
  const int64_t tiles = form->elements / kTileElements;
  bytes[planes++] = tiles * words_of_row(form->words) * 2 * 32 * 4;
  if (form->single_bits) bytes[planes++] = tiles * 32 * 4;
  for (const int64_t scales : form->scale_bytes) {
    if (scales > 0) bytes[planes++] = scales;
  }
  return WeightLayout(desc, PackedForm{.elements = form->elements,
                                       .together = kTileRows,
                                       .plane_bytes = std::span(bytes).first(planes),
                                       .pack = pack});
}

}  // namespace infer::cuda
