// Keys and values in their pages.
const uint kPageTokens = 64;

layout(constant_id = 0) const uint kCacheType = 0;
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
uint cache_block() { return kCacheType == kQ8_0 || kCacheType == kQ4_0 ? 32 : 1; }

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

void store_element(float value, uint64_t row, uint i) {
  if (kCacheType == kF32) F32(row).v[i] = value;
  if (kCacheType == kF16) U16(row).v[i] = uint16_t(f32_to_f16(value));
  if (kCacheType == kBf16) U16(row).v[i] = uint16_t(f32_to_bf16(value));
}

// The value of largest magnitude of 32.
float extreme_of(F32 x, uint from) {
  float extreme = 0;
  for (uint j = 0; j < 32; ++j) {
    const float value = x.v[from + j];
    if (abs(value) > abs(extreme)) extreme = value;
  }
  return extreme;
}

int level_of(float x, int low, int high) {
  return int(clamp(roundEven(x), float(low), float(high)));
}

// engine/quant/q8_0.h, q4_0.h
void store_q8_0(F32 x, uint from, uint64_t block) {
  const uint d = f32_to_f16_finite(abs(extreme_of(x, from)) / 127.0);
  const float scale = half_of(d);
  const float inverse = scale != 0 ? 1.0 / scale : 0.0;
  U16(block).v[0] = uint16_t(d);
  for (uint j = 0; j < 16; ++j) {
    const int low = level_of(x.v[from + 2 * j] * inverse, -127, 127);
    const int high = level_of(x.v[from + 2 * j + 1] * inverse, -127, 127);
    U16(block).v[1 + j] = uint16_t((uint(low) & 255u) | ((uint(high) & 255u) << 8));
  }
}

void store_q4_0(F32 x, uint from, uint64_t block) {
  const uint d = f32_to_f16_finite(extreme_of(x, from) / -8.0);
  const float scale = half_of(d);
  const float inverse = scale != 0 ? 1.0 / scale : 0.0;
  U16(block).v[0] = uint16_t(d);
  for (uint j = 0; j < 8; ++j) {
    uint word = 0;
    for (uint part = 0; part < 2; ++part) {
      const int low = level_of(x.v[from + 2 * j + part] * inverse, -8, 7) + 8;
      const int high = level_of(x.v[from + 2 * j + part + 16] * inverse, -8, 7) + 8;
      word |= uint(low | (high << 4)) << (8 * part);
    }
    U16(block).v[1 + j] = uint16_t(word);
  }
}
