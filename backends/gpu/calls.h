// Calls that compute several nodes (engine/backend/fusion.h) with the operands of their nodes
// brought together, as the kernels of products and of rope and store take them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/gpu/operand.h"
#include "engine/backend/device.h"
#include "engine/backend/fusion.h"

namespace infer::gpu {

/// How the matrix of a weight is chosen for a column.
enum class MatrixOf : uint32_t { only, by_ids, by_place, by_groups };

/// A weight and its result.
struct ProductWeight {
  Operand w, bias, scale, y;
};

/// One dispatch: weights of the same type and K, multiplied with the same activations.
struct ProductCall {
  std::vector<ProductWeight> weights;
  Operand x, ids;
  MatrixOf matrix = MatrixOf::only;
  const op::RmsNorm* norm = nullptr;  ///< of x, first; with the next weight if it has data
  Operand norm_weight;
  const op::Glu* glu = nullptr;  ///< of the results of two weights, written to y of the first
  const op::Add* add = nullptr;  ///< of the residual and the result of the weight, written to y
  Operand residual;
};

/// Rope of queries and keys, and storing keys and values.
struct RopeStoreCall {
  const op::Rope* rope = nullptr;
  int32_t kv_layer = 0;
  Operand q, k, v, table, slots, sequences;
  Operand y;  ///< queries
};

/// A matmul, moe_matmul or head_matmul as a call. What is fused with it is added later.
ProductCall product_of(const Node& node, std::span<const Operand> inputs,
                       std::span<const Operand> outputs);

/// Whether the result of a product says which experts a row uses. Such products stay exact.
bool chooses_experts(const Graph& graph, const Node& node);

/// The operand of a value, as the program places it.
using OperandOf = std::function<Operand(ValueId)>;

/// The operands of a segment's values. `memory`: CompileSpec::memory. `input`: the address of an
/// input of the graph.
Operand operand_at(const Graph& graph, ValueId id, std::span<const MemoryRef> memory,
                   const std::function<uint64_t(ValueId)>& input);
inline uint64_t address_of(const MemoryRef& at) {
  return reinterpret_cast<uintptr_t>(at.buffer->address()) + static_cast<uint64_t>(at.offset);
}
std::vector<Operand> operands_of(std::span<const ValueId> ids, const OperandOf& operand);

/// A call of kind products, or of rope_and_store.
ProductCall products_of(const Graph& graph, const FusedCall& call, const OperandOf& operand);
RopeStoreCall ropes_of(const Graph& graph, const FusedCall& call, const OperandOf& operand);

}  // namespace infer::gpu
