// The table of attention_kernels.h, of kernels that are written once over the vector F of an
// instruction set: one file a step of attention.
#pragma once

#include "backends/cpu/simd/attention/cache_rows.h"
#include "backends/cpu/simd/attention/interleaved.h"
#include "backends/cpu/simd/attention/mixes.h"
#include "backends/cpu/simd/attention/scores.h"
#include "backends/cpu/simd/attention/softmax.h"
#include "backends/cpu/simd/clean.h"
#include "backends/cpu/simd/hadamard.h"
#include "backends/cpu/simd/rope.h"

namespace infer::cpu {
namespace {

constexpr AttentionOps kAttentionOps{clean<score_page>, clean<interleave_keys>, clean<soften_page>,
                                     clean<mix_page>,   clean<encode_q8_0>,     clean<rope>,
                                     clean<hadamard>};

}  // namespace
}  // namespace infer::cpu
