// The sixteen values of a 4-bit float (E2M1: sign, two exponent bits, one mantissa bit), doubled so
// that they are whole; the scales of MXFP4 and NVFP4 are halved in turn. OCP Microscaling Formats
// 1.0, section 5.3.3. Minus zero decodes as plus zero.
#pragma once

#include "engine/quant/quant.h"

namespace infer {

inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace infer
