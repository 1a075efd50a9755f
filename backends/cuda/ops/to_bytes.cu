#include "backends/cuda/ops/to_bytes.h"

#include "backends/cuda/device/bytes.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(to_bytes, ToBytesParams, kToBytesThreads, 1) {
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.rows)) return;
  const uint32_t part = lane() % 8;
  const uint32_t piece = (block_x() * threads() + thread()) / 8;
  const bool given = piece < 2 * p.tiles;
  float4 x{0, 0, 0, 0};
  if (given) {
    x = four_elements(Global<const float>(p.x), place(p.strides, block_y(), row),
                      piece * 32 + part * 4, p.k, p.aligned);
  }
  const FourBytes four = bytes_of_four(x);
  const int32_t sum = p.runs != 0 ? sum_of_run(four.sum, 64 / p.runs) : 0;
  if (!given) return;
  const uint32_t m = piece % 2;
  const uint64_t at = uint64_t{piece / 2} * p.to.columns + row * p.to.d1 + block_y();
  Global<uint32_t>(p.to.words)[at * 16 + part % 4 * 4 + 2 * m + part / 4] = four.word;
  if (part == 0) {
    Global<float>(p.to.scales)[at * 4 + m] = four.scale;
    Global<float>(p.to.scales)[at * 4 + 2 + m] = raised_scale(four.scale);
  }
  if (p.runs == 0) return;
  const uint32_t of_run = 16 / p.runs;  // lanes
  if (part % of_run == 0) {
    const float2 parts = negative_parts(four.scale * static_cast<float>(sum));
    const uint64_t run = at * 2 * p.runs + m * (p.runs / 2) + part / of_run;
    Global<float>(p.to.sums)[run] = parts.x;
    Global<float>(p.to.sums)[run + p.runs] = parts.y;
  }
}

}  // namespace infer::cuda
