// Quantised types: what a header engine/quant/<type>.h provides, and the table of all types.
//
// A header specialises Codec<DType::x> with
//   using Block = …;                                  one block as in a file, without padding
//   static void decode(const Block*, float* out, int64_t blocks);
//   static void encode(const float* in, Block*, int64_t blocks);                         optional
//   static void quantise(const float* in, const float* importance, Block*, int64_t blocks);
//                                                                                        optional
// Decoding is exact: it multiplies and adds in float32 in the order of the format's reference.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/core/half.h"

namespace infer {

template <DType T>
struct Codec;

/// Decodes `n` elements (a whole number of blocks). `in` is aligned to at least 2 bytes.
using DecodeFn = void (*)(const void* in, float* out, int64_t n);
/// Quantises `n` elements (a whole number of blocks) quickly. The input is finite.
using EncodeFn = void (*)(const float* in, void* out, int64_t n);

/// Quantises `n` elements (a whole number of blocks) as well as possible in reasonable time. It
/// minimises the sum of squared errors, each times the importance of its column. `importance` has
/// `n` values ≥ 0; null: all columns count equally. Large weights count more (search.h).
using QuantiseFn = void (*)(const float* in, const float* importance, void* out, int64_t n);

/// The functions of one type.
struct QuantTraits {
  DType type;
  DecodeFn decode;
  EncodeFn encode;      ///< fast enough for activations, caches and random weights; may be null
  QuantiseFn quantise;  ///< for weights; null if the type is only decoded
};

const QuantTraits& quant_traits(DType type);

/// The largest value that the type can hold, of quantised types within a factor of two. Beyond it a
/// value would become infinite, or, where the scale of a block has a limit, another number.
float most_held(DType type);
/// Whether the type can hold a value. No type holds infinities or NaN.
bool holds(DType type, float value);

}  // namespace infer
