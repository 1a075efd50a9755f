// F64: IEEE binary64; decoding rounds to the nearest float.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/scalar_block.h"

namespace infer {

template <>
struct Codec<DType::f64> : ScalarCodec<double> {};

}  // namespace infer
