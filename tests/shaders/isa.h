// What a loop of a shader costs on AMD's processors, counted in the text of its instructions as
// Mesa's compiler prints it ("BB3:" begins a block, "s_cbranch_scc0 BB7" is a branch).
#pragma once

#include <cstdint>
#include <string_view>

namespace infer::vulkan {

/// Instructions of one pass through a loop, with all passes of loops inside.
struct LoopCost {
  int64_t vector = 0;        ///< arithmetic of all lanes (v_…), without matrices and dot products
  int64_t dots = 0;          ///< products of four bytes and sums of them (v_dot4…)
  int64_t matrices = 0;      ///< products of matrices (v_wmma…)
  int64_t scalar = 0;        ///< arithmetic and branches of the subgroup (s_…)
  int64_t loads = 0;         ///< from memory, by lane
  int64_t scalar_loads = 0;  ///< from memory, by subgroup
  int64_t shared = 0;        ///< accesses of shared memory (ds_…)
  int64_t in_flight =
      0;  ///< bytes a lane that loads have asked for and none has waited for, at most

  /// Cycles of a SIMD of RDNA 3 for a product of matrices of 16 × 16 × 16. A SIMD makes 256
  /// operations in a cycle. Source: AMD, "How to accelerate AI applications on RDNA 3 using WMMA".
  static constexpr int64_t kMatrixCycles = 32;

  /// Cycles in which a SIMD issues what lanes compute.
  int64_t issued() const { return vector + dots + kMatrixCycles * matrices; }
};

/// The innermost loop in which lanes load from memory, of several the one that issues most. Each
/// loop in it is passed `passes_inside` times. What a branch jumps over is not counted if there is
/// a barrier in it: a workgroup goes there as a whole, and seldom. All zero: there is none.
LoopCost inner_loop(std::string_view code, int64_t passes_inside);

}  // namespace infer::vulkan
