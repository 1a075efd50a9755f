// The table of attention_kernels.h, of kernels that are written once over the vector F of an
// instruction set: one file a step of attention.
#pragma once

#include "backends/cpu/simd/attention/cache_rows.h"
#include "backends/cpu/simd/attention/interleaved.h"
#include "backends/cpu/simd/attention/mixes.h"
#include "backends/cpu/simd/attention/scores.h"
#include "backends/cpu/simd/attention/softmax.h"
#include "backends/cpu/simd/hadamard.h"
#include "backends/cpu/simd/rope.h"

namespace infer::cpu {
namespace {

constexpr AttentionOps kAttentionOps{
    score_page, interleave_keys, soften_page, mix_page, encode_q8_0, rope, hadamard};

}  // namespace
}  // namespace infer::cpu
