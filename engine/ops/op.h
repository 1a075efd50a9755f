// The definition of an operation: checks of a node, inferred results, a scalar reference and
// conformance cases. Each engine/ops/<op>.cpp defines  const OpDef& <op>_op().
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/tensor_ref.h"

namespace infer {

/// One call of a scalar reference. All memory is the host's.
struct RefCall {
  const OpParams& params;
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs;
  const KvGeometry& kv;
  const KvLayout& kv_layout;
  std::span<const KvPages> pages;  ///< by kind
};

/// A conformance case: a small graph and random data for it. Every device compiles and runs the
/// graph; its results are compared with those of the references, run node by node.
struct OpCase {
  std::string name;
  int64_t rows = 1;
  int64_t outputs = 1;
  KvGeometry kv;
  /// Adds the nodes. Weights and data inputs are numbered from 0 in the order of the calls.
  std::function<void(class CaseBuilder&)> build;
  /// Normalised squared error allowed between float32 results (Σ(x−ref)²/Σref²).
  double tolerance = 1e-11;
  int32_t sequences = 1;
};

/// Makes the inputs of a case: random data from fixed seeds.
class CaseBuilder {
 public:
  CaseBuilder(const OpCase& op_case, uint64_t seed);

  GraphBuilder& graph() { return graph_; }
  /// Normally distributed values in the given type.
  ValueId weight(DType type, int64_t d0, int64_t d1 = 1, int64_t d2 = 1);
  /// Float32 [d0, d1] below 0: logarithms of decays.
  ValueId decays(int64_t d0, int64_t d1 = 1);
  /// Normally distributed float32 activations [d0, d1, rows].
  ValueId activations(int64_t d0, int64_t d1 = 1, float scale = 1.0f);
  /// Integers in least..below−1, [d0, 1, rows].
  ValueId indices(int64_t d0, int64_t below, int64_t least = 0);

  const std::vector<std::vector<std::byte>>& weights() const { return weights_; }
  const std::vector<std::vector<std::byte>>& inputs() const { return inputs_; }
  int64_t rows() const { return rows_; }
  Result<Graph> finish() { return graph_.finish(); }

 private:
  float normal();

  GraphBuilder graph_;
  uint64_t state_;
  int64_t rows_;
  std::vector<std::vector<std::byte>> weights_;
  std::vector<std::vector<std::byte>> inputs_;
};

struct OpDef {
  OpId id;
  const char* name;
  InferOutputs infer;                   ///< checks a node and infers its results
  void (*reference)(const RefCall&);    ///< computes in double where it sums
  void (*cases)(std::vector<OpCase>&);  ///< adds the conformance cases
};

/// All operations, in no particular order. CMake generates the list from the files in engine/ops.
std::span<const OpDef* const> all_ops();
const OpDef& op_def(OpId id);

/// Checks a node and infers its results with OpDef::infer of its operation.
Result<std::vector<OutputDesc>> infer_outputs(const OpParams& params, InputDescs inputs,
                                              const KvGeometry& kv);

// For OpDef::infer in engine/ops/<op>.cpp.

/// Fails (internal) unless there are `count` inputs and those at `required` are not left out.
Status check_inputs(const char* op, InputDescs inputs, size_t count,
                    std::initializer_list<size_t> required);
/// Fails (internal) unless `good`, with the operation and the shapes of the inputs.
Status check_shape(const char* op, bool good, const char* expected, InputDescs inputs);
/// A contiguous result [d0, d1, rows] with as many rows as `rows_of`.
OutputDesc made(DType type, int64_t d0, int64_t d1, const Value& rows_of);

}  // namespace infer
