// Values of a step of one row that are stored as bytes (ops/to_bytes.h) in place of floats. What
// makes them rounds them, so that not every block of the products that take them has to.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/op.h"
#include "backends/cuda/ops/to_bytes.h"

namespace infer::cuda {

/// Which values of a segment's program are rounded: activations of gate and up, and results of
/// attention, that nothing but products of bytes uses.
class RoundedValues {
 public:
  RoundedValues(const Segment& segment, std::span<const FusedCall> calls, const Target& target);

  /// Where the bytes are, in the memory of the value; without words for one that is not rounded.
  ColumnBytes bytes(const Operand& operand) const;
  /// Runs of a tile whose sums are stored.
  uint32_t runs(const Operand& operand) const;

 private:
  static constexpr int8_t kFloats = -1;
  int8_t of(const Operand& operand) const;

  const Graph& graph_;
  std::vector<int8_t> runs_;  ///< by value; kFloats: it is not rounded
};

}  // namespace infer::cuda
