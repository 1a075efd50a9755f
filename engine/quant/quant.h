// Quantised types: what a header engine/quant/<type>.h provides, and the table over all of them.
//
// A header specialises Codec<DType::x> with
//   using Block = …;                                  one block as it lies in a file, no padding
//   static void decode(const Block*, float* out, int64_t blocks);
//   static void encode(const float* in, Block*, int64_t blocks);      where an encoder exists
//   static void quantise(const float* in, const float* importance, Block*, int64_t blocks);
//                                                                     where one searches
// Decoding is exact: products and sums in float32 in the order that the format's reference uses.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/core/half.h"

namespace infer {

template <DType T>
struct Codec;

/// Values of `n` elements (a whole number of blocks); `in` is aligned to 2 bytes at least.
using DecodeFn = void (*)(const void* in, float* out, int64_t n);
/// Quantises `n` elements (a whole number of blocks). The input is finite.
using EncodeFn = void (*)(const float* in, void* out, int64_t n);

/// Quantises `n` elements (a whole number of blocks) as well as it can be done in reasonable time:
/// with the least sum of squared errors, each times the importance of its column. `importance` has
/// `n` values ≥ 0, or is null: all columns count alike. Large weights count more (search.h).
using QuantiseFn = void (*)(const float* in, const float* importance, void* out, int64_t n);

/// The functions of one type.
struct QuantTraits {
  DType type;
  DecodeFn decode;
  EncodeFn encode;      ///< fast enough for activations, caches and made-up weights, or null
  QuantiseFn quantise;  ///< for weights; null where only decoding is defined
};

const QuantTraits& quant_traits(DType type);

}  // namespace infer
