#include "backends/gpu/operand.h"

#include "engine/core/checked.h"

namespace infer::gpu {

ShapePush shape_of(const Operand& result) {
  return {result.size(0), result.size(1), result.stride(1), result.stride(2),
          result.value->rows == Rows::outputs ? 1u : 0u};
}

StridePush strides_of(const Operand& operand) {
  return {operand.dim(1) == 1 ? 0 : operand.stride(1), operand.stride(2)};
}

bool whole_rows(DType type, int64_t dim, int64_t row_bytes) {
  return dim % 4 == 0 && (is_quantised(type) || row_bytes % 8 == 0);
}

Groups elements_of(const Operand& result, int64_t threads) {
  return {div_ceil<int64_t>(result.dim(0), threads), result.dim(1), result.dim(2)};
}

}  // namespace infer::gpu
