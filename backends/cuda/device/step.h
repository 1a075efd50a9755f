// What kernels share: the step's counts, places of elements, loops over them.
#pragma once

#include "backends/cuda/device/block.h"
#include "backends/cuda/device/memory.h"
#include "backends/gpu/push.h"
#include "backends/gpu/step.h"

namespace infer::cuda {

using gpu::ShapePush;
using gpu::StridePush;

/// A count of the step: gpu::StepRows.
INFER_DEVICE uint32_t step_rows(uint64_t step, uint32_t which) {
  return Global<const uint32_t>(step)[which];
}
/// The address of the constant tables of types.
INFER_DEVICE uint64_t step_tables(uint64_t step) {
  return Global<const uint64_t>(step + offsetof(gpu::StepHeader, tables))[0];
}

INFER_DEVICE uint32_t place(const StridePush& s, uint32_t i1, uint32_t i2) {
  return i1 * s.stride1 + i2 * s.stride2;
}
INFER_DEVICE uint32_t place(const ShapePush& s, uint32_t i1, uint32_t i2) {
  return i1 * s.stride1 + i2 * s.stride2;
}

/// Of kernels that compute each element of a result [d0, d1, rows] for itself.
struct Element {
  uint32_t d0, d1, row;
  bool given;  ///< false: there is none
};
INFER_DEVICE Element element_of(const ShapePush& shape, uint64_t step) {
  Element e{block_x() * threads() + thread(), block_y(), block_z(), false};
  e.given = e.d0 < shape.d0 && e.row < step_rows(step, shape.rows);
  return e;
}

}  // namespace infer::cuda
