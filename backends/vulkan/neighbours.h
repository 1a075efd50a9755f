// Weights as this back end's shaders read them: the plain layout (gpu/weight_layout.h), in which
// each piece of 32 neighbours along K is also stored together. Types that spread neighbours over a
// block (Q2_K to Q6_K) or bits over bytes (Q5_0, Q5_1) are put into another order while packing.
// Each field keeps its place and its size.
//
// Of the 32 weights of a piece, with t from 0 to 3:
//   four bits   16 bytes; byte j has weight j below weight j + 16
//   two bits    two words; byte t of word u has weights 16u + 4s + t in bits 2s and 2s + 1
//   one bit     a word; byte t has weight 4m + t in bit m
// So a shift and a mask give four neighbours, each in a byte. The scales of Q4_K and Q5_K are three
// words; nibble p belongs to piece p: the lower four bits of the scale, those of the offset, and
// the upper two bits of the scale below those of the offset. Those of Q3_K: byte p has the lower
// four bits of both scales of piece p; nibble p of the four bytes behind them has their upper two
// bits.
#pragma once

#include "backends/gpu/weight_layout.h"

namespace infer::vulkan {

gpu::WeightLayout weight_layout(const TensorDesc& desc);

}  // namespace infer::vulkan
