#include "backends/cuda/ops/near_largest.h"

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(near_largest, NearLargestParams, kReduceThreads, 1) {
  const uint32_t part = block_x();
  const uint32_t row = block_y();
  const uint32_t begin = part * p.part_columns;
  const uint32_t behind = begin + p.part_columns;
  const uint32_t end = behind < p.columns ? behind : p.columns;
  const Global<const float> values(p.values + uint64_t{row} * p.columns * 4);
  const Global<float> largest(p.largest + uint64_t{row} * p.parts * 4);
  float most = -infinity();
  if (p.listed == 0) {
    for (uint32_t i = begin + thread(); i < end; i += kReduceThreads) {
      const float x = values[i];
      if (x > most) most = x;
    }
    most = block_max(most);
    if (thread() == 0) largest[part] = most;
    return;
  }
  for (uint32_t i = thread(); i < p.parts; i += kReduceThreads) most = most_of(most, largest[i]);
  const float least = block_max(most) - p.reach;
  const Global<uint32_t> list(p.lists + uint64_t{row} * (1 + 2 * p.capacity) * 4);
  for (uint32_t i = begin + thread(); i < end; i += kReduceThreads) {
    const float x = values[i];
    if (!(x >= least)) continue;
    const uint32_t at = atomic_add(list, 0, 1);
    if (at >= p.capacity) continue;
    list[1 + 2 * at] = i;
    list[2 + 2 * at] = bits_of(x);
  }
}

}  // namespace infer::cuda
