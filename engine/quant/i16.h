// I16: 16-bit integers.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/scalar_block.h"

namespace infer {

template <>
struct Codec<DType::i16> : ScalarCodec<int16_t> {};

}  // namespace infer
