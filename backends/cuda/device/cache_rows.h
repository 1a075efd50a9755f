// Keys and values read several elements at a time.
#pragma once

#include "backends/cuda/device/cache.h"

namespace infer::cuda {

/// Rows that cannot be read in fours: their type is known at run time only.
constexpr uint32_t kCacheOdd = 5;

/// Calls use(Constant<type>()), so that loops are compiled for each type and their loads go ahead
/// of what is computed. `whole`: rows can be read in fours.
template <typename Use>
INFER_DEVICE void with_type(uint32_t type, uint32_t whole, const Use& use) {
  switch (whole != 0 ? type : kCacheOdd) {
    case kCacheF32: use(Constant<kCacheF32>()); break;
    case kCacheF16: use(Constant<kCacheF16>()); break;
    case kCacheBf16: use(Constant<kCacheBf16>()); break;
    case kCacheQ8_0: use(Constant<kCacheQ8_0>()); break;
    case kCacheQ4_0: use(Constant<kCacheQ4_0>()); break;
    default: use(Constant<kCacheOdd>()); break;
  }
}

/// Two elements of 16 bits of type f16 or bf16.
template <uint32_t kType>
INFER_DEVICE float2 two_of(uint32_t word) {
  if constexpr (kType == kCacheF16) return {half_of(word & 0xffffu), half_of(word >> 16)};
  return {float_of(word << 16), float_of(word & 0xffff0000u)};
}

/// Elements i to i + 3 of a key or value at `row`, i a multiple of 4. kCacheOdd: of type `type`,
/// zeros from `end` on.
template <uint32_t kType>
INFER_DEVICE float4 four_of(uint32_t type, uint64_t row, uint32_t i, uint32_t end) {
  if constexpr (kType == kCacheOdd) {
    float4 v{0, 0, 0, 0};
    if (i < end) v.x = cache_element(type, row, i);
    if (i + 1 < end) v.y = cache_element(type, row, i + 1);
    if (i + 2 < end) v.z = cache_element(type, row, i + 2);
    if (i + 3 < end) v.w = cache_element(type, row, i + 3);
    return v;
  } else if constexpr (kType == kCacheF32) {
    const Global<const float> x(row);
    const float2 low = load_as<float2>(x, i);
    const float2 high = load_as<float2>(x, i + 2);
    return {low.x, low.y, high.x, high.y};
  } else if constexpr (kType == kCacheF16 || kType == kCacheBf16) {
    const uint2 words = load_as<uint2>(Global<const uint16_t>(row), i);
    const float2 low = two_of<kType>(words.x);
    const float2 high = two_of<kType>(words.y);
    return {low.x, low.y, high.x, high.y};
  } else {
    constexpr bool kWide = kType == kCacheQ8_0;
    const Global<const uint16_t> block(row + i / 32 * (kWide ? 34 : 18));
    const uint32_t at = 1 + i % (kWide ? 32 : 16) / 2;
    const uint32_t word = block[at] | static_cast<uint32_t>(block[at + 1]) << 16;
    const float scale = half_of(block[0]);
    const auto level = [&](uint32_t j) {
      if constexpr (kWide) {
        return static_cast<float>(static_cast<int32_t>(word << (24 - 8 * j)) >> 24);
      }
      const uint32_t nibble = (word >> (8 * j + i % 32 / 16 * 4)) & 15;
      return static_cast<float>(static_cast<int32_t>(nibble) - 8);
    };
    return {level(0) * scale, level(1) * scale, level(2) * scale, level(3) * scale};
  }
}

/// Element i of two neighbouring tokens of transposed keys.
template <uint32_t kType>
INFER_DEVICE float2 two_across(uint64_t keys, uint32_t i, uint32_t token) {
  const uint32_t at = i * kPageTokens + token;
  if constexpr (kType == kCacheF32) return load_as<float2>(Global<const float>(keys), at);
  return two_of<kType>(load_as<uint32_t>(Global<const uint16_t>(keys), at));
}

}  // namespace infer::cuda
