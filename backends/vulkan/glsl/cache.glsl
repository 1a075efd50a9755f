// Keys and values in their pages.
const uint kPageTokens = 64;

// Types as cache.cpp numbers them.
const uint kF32 = 0;
const uint kF16 = 1;
const uint kBf16 = 2;
const uint kQ8_0 = 3;
const uint kQ4_0 = 4;

// The page that holds a slot of a sequence.
uint64_t page_of(StepKind kind, uint sequence, uint slot) {
  return Addresses(kind.table).v[sequence * kind.stride + slot / kPageTokens];
}

// Elements of a block of the type.
uint cache_block(uint type) { return type == kQ8_0 || type == kQ4_0 ? 32 : 1; }

// Element i of a key or value at `row`.
float element_of(uint type, uint64_t row, uint i) {
  if (type == kF32) return F32(row).v[i];
  if (type == kF16) return half_of(uint(U16(row).v[i]));
  if (type == kBf16) return uintBitsToFloat(uint(U16(row).v[i]) << 16);
  if (type == kQ8_0) {
    const uint64_t block = row + i / 32 * 34;
    return float(int(uint(U8(block).v[2 + i % 32]) << 24) >> 24) * half_of(uint(U16(block).v[0]));
  }
  const uint64_t block = row + i / 32 * 18;
  const uint level = (uint(U8(block).v[2 + i % 16]) >> (i % 32 / 16 * 4)) & 15;
  return float(int(level) - 8) * half_of(uint(U16(block).v[0]));
}

// Elements i to i + 3, where i is a multiple of 4; zeros from `end` on. `whole`: there is none of
// these, and what is not stored in blocks begins at a multiple of 8 bytes.
vec4 four_of(uint type, bool whole, uint64_t row, uint i, uint end) {
  if (!whole) {
    vec4 some = vec4(0);
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      if (i + e < end) some[e] = element_of(type, row, i + e);
    }
    return some;
  }
  if (type == kF32) {
    return vec4(uintBitsToFloat(unpackUint2x32(Pair(row + i * 4).v)),
                uintBitsToFloat(unpackUint2x32(Pair(row + i * 4 + 8).v)));
  }
  if (type == kF16 || type == kBf16) {
    const uvec2 words = unpackUint2x32(Pair(row + i * 2).v);
    if (type == kF16) return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
    return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16,
                                 words.y & 0xffff0000u));
  }
  const bool wide = type == kQ8_0;
  U16 block = U16(row + i / 32 * (wide ? 34 : 18));
  const uint at = 1 + i % (wide ? 32 : 16) / 2;
  const uint word = uint(block.v[at]) | uint(block.v[at + 1]) << 16;
  ivec4 levels;
  if (wide) {
    levels = (ivec4(word) << ivec4(24, 16, 8, 0)) >> 24;
  } else {
    levels = ivec4((uvec4(word) >> (uvec4(0, 8, 16, 24) + i % 32 / 16 * 4)) & 15) - 8;
  }
  return vec4(levels) * half_of(uint(block.v[0]));
}

// Elements i to i + 7 of a row of any type but float32 as they are stored, where i is a multiple of 8:
// 16 bits each, which begin at a multiple of 16 bytes, or levels and in z their block's scale.
uvec4 eight_stored(uint type, uint64_t row, uint i) {
  if (type == kF16 || type == kBf16) return Eight(row + i * 2).v;
  const bool wide = type == kQ8_0;
  U16 block = U16(row + i / 32 * (wide ? 34 : 18));
  const uint at = 1 + i % (wide ? 32 : 16) / 2;
  uvec2 levels = uvec2(uint(block.v[at]) | uint(block.v[at + 1]) << 16,
                       uint(block.v[at + 2]) | uint(block.v[at + 3]) << 16);
  if (!wide) levels >>= i % 32 / 16 * 4;
  return uvec4(levels, uint(block.v[0]), 0);
}

// engine/core/half.h: to the nearest, halves to even.
uint f32_to_f16(float f) {
  const uint bits = floatBitsToUint(f);
  const uint sign = (bits >> 16) & 0x8000u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    const precise float scaled = uintBitsToFloat(magnitude) + 0.5;
    return sign | (floatBitsToUint(scaled) - 0x3f000000u);
  }
  const uint rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return sign | ((rounded - 0x38000000u) >> 13);
}

uint f32_to_bf16(float f) {
  const uint bits = floatBitsToUint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

uint f32_to_f16_finite(float f) { return f32_to_f16(clamp(f, -65504.0, 65504.0)); }

int level_of(float x, int low, int high) {
  return int(clamp(roundEven(x), float(low), float(high)));
}

// The value of largest magnitude.
float extreme_of(float x[32]) {
  float extreme = 0;
  [[unroll]] for (uint j = 0; j < 32; ++j) {
    if (abs(x[j]) > abs(extreme)) extreme = x[j];
  }
  return extreme;
}

// engine/quant/q8_0.h, q4_0.h
void store_q8_0(float x[32], uint64_t block) {
  const uint d = f32_to_f16_finite(abs(extreme_of(x)) / 127.0);
  const float scale = half_of(d);
  const float inverse = scale != 0 ? 1.0 / scale : 0.0;
  U16(block).v[0] = uint16_t(d);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const int low = level_of(x[2 * j] * inverse, -127, 127);
    const int high = level_of(x[2 * j + 1] * inverse, -127, 127);
    U16(block).v[1 + j] = uint16_t((uint(low) & 255u) | ((uint(high) & 255u) << 8));
  }
}

void store_q4_0(float x[32], uint64_t block) {
  const uint d = f32_to_f16_finite(extreme_of(x) / -8.0);
  const float scale = half_of(d);
  const float inverse = scale != 0 ? 1.0 / scale : 0.0;
  U16(block).v[0] = uint16_t(d);
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    uint word = 0;
    [[unroll]] for (uint part = 0; part < 2; ++part) {
      const int low = level_of(x[2 * j + part] * inverse, -8, 7) + 8;
      const int high = level_of(x[2 * j + part + 16] * inverse, -8, 7) + 8;
      word |= uint(low | (high << 4)) << (8 * part);
    }
    U16(block).v[1 + j] = uint16_t(word);
  }
}

// Unit i of a key or value at `row`: an element, or a block of 32.
void store_unit(uint type, float x[32], uint64_t row, uint i) {
  if (type == kF32) F32(row).v[i] = x[0];
  if (type == kF16) U16(row).v[i] = uint16_t(f32_to_f16(x[0]));
  if (type == kBf16) U16(row).v[i] = uint16_t(f32_to_bf16(x[0]));
  if (type == kQ8_0) store_q8_0(x, row + i * 34);
  if (type == kQ4_0) store_q4_0(x, row + i * 18);
}
