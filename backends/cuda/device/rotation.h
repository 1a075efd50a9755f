// Rotary position embedding.
#pragma once

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

/// Element i of the head at x[from], rotated with the other of its pair by row r's angle.
/// style: op::Rope::Style.
INFER_DEVICE float roped(uint32_t style, const Global<const float>& x, uint32_t from, uint32_t i,
                         uint32_t pairs, const Global<const float>& table,
                         const StridePush& strides, uint32_t r) {
  const float own = x[from + i];
  if (i >= 2 * pairs) return own;
  const uint32_t pair = style == 0 ? i / 2 : i % pairs;
  const bool first = style == 0 ? i % 2 == 0 : i < pairs;
  const uint32_t step_to_other = style == 0 ? 1 : pairs;
  const float other = x[first ? from + i + step_to_other : from + i - step_to_other];
  const uint32_t angle = place(strides, pair, r);
  const float c = table[angle];
  const float s = table[angle + 1];
  return first ? fused(own, c, -(other * s)) : fused(own, c, other * s);
}

}  // namespace infer::cuda
