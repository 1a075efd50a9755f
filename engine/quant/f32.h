// F32: IEEE binary32.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/scalar_block.h"

namespace infer {

template <>
struct Codec<DType::f32> : ScalarCodec<float> {};

}  // namespace infer
