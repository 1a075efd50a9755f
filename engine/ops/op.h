// What an operation is: validation, inferred shapes, a scalar reference and conformance cases.
// Each engine/ops/<op>.cpp defines  const OpDef& <op>_op().
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/tensor_ref.h"

namespace infer {

/// One call of a scalar reference.
struct RefCall {
  const OpParams& params;
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs;
  const KvGeometry& kv;
  const KvLayout& kv_layout;
  std::span<const KvPages> pages;  ///< by kind
};

/// A conformance case: a small graph and random data for it. Every device compiles the graph and is
/// compared with the references run node by node.
struct OpCase {
  std::string name;
  int64_t rows = 1;
  int64_t outputs = 1;
  KvGeometry kv;
  /// Builds the nodes; weights and data inputs are numbered from 0 in the order of their making.
  std::function<void(class CaseBuilder&)> build;
  /// Normalised squared error allowed between float32 results (Σ(x−ref)²/Σref²).
  double tolerance = 1e-11;
  int32_t sequences = 1;
};

/// Makes the inputs of a case: random data of fixed seeds.
class CaseBuilder {
 public:
  CaseBuilder(const OpCase& op_case, uint64_t seed);

  GraphBuilder& graph() { return graph_; }
  /// Normally distributed values in the given type.
  ValueId weight(DType type, int64_t d0, int64_t d1 = 1, int64_t d2 = 1);
  /// Normally distributed float32 activations [d0, d1, rows].
  ValueId activations(int64_t d0, int64_t d1 = 1, float scale = 1.0f);
  /// Integers in 0..below−1, [d0, 1, rows].
  ValueId indices(int64_t d0, int64_t below);

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
  InferOutputs infer;
  void (*reference)(const RefCall&);
  void (*cases)(std::vector<OpCase>&);
};

/// Generated from the files in engine/ops; in no particular order.
std::span<const OpDef* const> all_ops();
const OpDef& op_def(OpId id);

/// Validates a node and infers its outputs by its operation's own rule.
Result<std::vector<OutputDesc>> infer_outputs(const OpParams& params, InputDescs inputs,
                                              const KvGeometry& kv);

// For the rules in engine/ops.

/// Fails (internal) unless there are `count` inputs and those at `required` are given.
Status check_inputs(const char* op, InputDescs inputs, size_t count,
                    std::initializer_list<size_t> required);
/// Fails (internal) unless the condition holds, naming the operation and the inputs' shapes.
Status check_shape(const char* op, bool good, const char* expected, InputDescs inputs);
/// A contiguous result.
OutputDesc made(DType type, int64_t d0, int64_t d1, const Value& rows_of);

}  // namespace infer
