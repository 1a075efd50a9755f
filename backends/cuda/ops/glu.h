// activation(gate) · up, element by element.
#pragma once

#include <cstdint>

#include "backends/cuda/ops/elements.h"
#include "backends/gpu/push.h"

namespace infer::cuda {

/// Of op::Glu::Kind, by their values.
enum GluKind : uint32_t {
  kGluSigmoid = 3,
  kGluRelu = 4,
  kGluBilinear = 5,
  kGluGelu = 6,
  kGluSoftplus = 7
};

struct GluParams {
  uint64_t step, gate, up, y;
  gpu::ShapePush shape;
  gpu::StridePush gate_strides, up_strides;
  uint32_t kind;  ///< op::Glu::Kind
  float alpha, limit;
};
static_assert(sizeof(GluParams) == 80);

}  // namespace infer::cuda
