// I8: 8-bit integers, for index and mask tensors.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/scalar_block.h"

namespace infer {

template <>
struct Codec<DType::i8> : ScalarCodec<int8_t> {};

}  // namespace infer
