// NF4: 64 weights, the largest magnitude in float32 and levels at the quantiles of a normal
// distribution (absmax_block.h). Dettmers et al. 2023, "QLoRA", appendix E, has the levels.
#pragma once

#include "engine/quant/absmax_block.h"

namespace infer {

struct Nf4Levels {
  static constexpr float kValues[16] = {-1,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1};
  static constexpr int kAscending[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

template <>
struct Codec<DType::nf4> : AbsmaxCodec<Nf4Levels> {};

}  // namespace infer
