// I32: 32-bit integers.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/scalar_block.h"

namespace infer {

template <>
struct Codec<DType::i32> : ScalarCodec<int32_t> {};

}  // namespace infer
