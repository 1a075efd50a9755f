// I64: float32 on the device.
// kernels: rows embed_rows
#pragma once

#include "backends/cuda/weights/fields.h"

namespace infer::cuda::INFER_TYPE {

struct Fields {
  static constexpr uint32_t kBlock = 1;
  static constexpr uint32_t kPlane0 = 4;
  static constexpr uint32_t kPlane1 = 0;
  static constexpr uint32_t kPlane2 = 0;
  static constexpr uint32_t kPlane3 = 0;
  static constexpr uint32_t kPlane4 = 0;
};

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/rows.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE float decode_one(const Row& row, uint32_t i) {
  return Global<const float>(row.plane[0])[i];
}

}  // namespace infer::cuda::INFER_TYPE

#include "backends/cuda/weights/scalar.h"
