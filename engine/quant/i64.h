// I64: 64-bit integers.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/scalar_block.h"

namespace infer {

template <>
struct Codec<DType::i64> : ScalarCodec<int64_t> {};

}  // namespace infer
