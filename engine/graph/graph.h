// The computation of one step as data: values and the nodes that make them, in topological order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/status.h"
#include "engine/core/tensor_desc.h"
#include "engine/graph/kv_geometry.h"
#include "engine/graph/params.h"

namespace infer {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// What the host gives a program at every run. Types and shapes are those of graph/params.h.
enum class StepInput : uint8_t {
  tokens,       ///< i32 [1, 1, rows] token ids
  slots,        ///< i32 [1, 1, rows] place in the row's sequence, from 0
  sequences,    ///< i32 [1, 1, rows] which block table
  output_rows,  ///< i32 [1, 1, outputs] the rows whose results are wanted
  rope_table,   ///< f32 [2, pairs, rows]; `index` says which of the model's RoPE kinds
  data,         ///< anything, in conformance cases; `index` numbers them
};

/// Which count of the step shape[2] of a value follows.
enum class Rows : uint8_t {
  fixed,    ///< none: weights
  tokens,   ///< the tokens of the step
  outputs,  ///< the rows whose results are wanted
};

/// A tensor of the graph. shape[2] of a value with rows is the most that the graph was built for.
struct Value {
  enum class Kind : uint8_t { input, weight, result, view };
  Kind kind = Kind::result;
  Rows rows = Rows::fixed;
  TensorDesc desc;
  StepInput input = StepInput::tokens;  ///< of an input
  int32_t index = 0;                    ///< of an input or a weight: which
  ValueId base = kNoValue;              ///< of a view: never itself a view
  int64_t offset = 0;                   ///< of a view: bytes from the base's start
};

/// The parts of a model that can be placed by themselves. `feed_forward`: of a layer with experts
/// its norms, router and shared expert.
enum class UnitKind : uint8_t { embedding, attention, feed_forward, experts, output };

struct Unit {
  UnitKind kind = UnitKind::embedding;
  int32_t layer = -1;
  bool operator==(const Unit&) const = default;
};

struct Node {
  OpParams params;
  std::vector<ValueId> inputs;  ///< kNoValue where an optional one is not given
  std::vector<ValueId> outputs;
  Unit unit;

  OpId op() const { return op_id(params); }
};

/// The layer whose cache a node reads or writes; -1: none.
int32_t cache_layer(const Node& node);

/// Immutable once built; made by GraphBuilder.
class Graph {
 public:
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  /// The value that holds a view's memory, or the value itself.
  ValueId storage(ValueId id) const { return value(id).base == kNoValue ? id : value(id).base; }
  /// What the host reads after a run.
  const std::vector<ValueId>& outputs() const { return outputs_; }
  int64_t max_rows() const { return max_rows_; }
  int64_t max_outputs() const { return max_outputs_; }
  const KvGeometry& kv() const { return kv_; }

 private:
  friend class GraphBuilder;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> outputs_;
  int64_t max_rows_ = 0;
  int64_t max_outputs_ = 0;
  KvGeometry kv_;
};

/// The tokens of a step by where they come from: the model's own, be they proposed or chosen, or
/// what it was given. A device that has two numeric classes (Device::two_classes) may compute the
/// latter faster and less exactly. Elsewhere nobody asks, and programs are made for `generated`.
enum class Roles : uint8_t { generated, prompt, both };

/// Nodes [begin, end) of a graph that one device runs.
struct Segment {
  const Graph* graph = nullptr;
  int32_t begin = 0;
  int32_t end = 0;
  Roles roles = Roles::generated;  ///< that the tokens have, or some of each

  std::span<const Node> nodes() const {
    return std::span(graph->nodes())
        .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
};

/// The inputs of a node as an operation sees them: null where an optional one is not given.
using InputDescs = std::span<const Value* const>;

/// What an operation makes: validated and inferred by engine/ops.
struct OutputDesc {
  TensorDesc desc;
  Rows rows = Rows::tokens;
};
using InferOutputs = Result<std::vector<OutputDesc>> (*)(const OpParams&, InputDescs,
                                                         const KvGeometry&);

/// Builds a Graph. The first failure is kept, later calls do nothing and return kNoValue, and
/// finish() reports it: graph code reads without a check on every line.
class GraphBuilder {
 public:
  /// `infer` validates nodes and infers what they make (ops/op.h: infer_outputs).
  GraphBuilder(InferOutputs infer, int64_t max_rows, int64_t max_outputs, KvGeometry kv);

  /// The step input, made once however often it is asked for.
  ValueId input(StepInput kind, int32_t index = 0, int64_t pairs = 0);
  /// A conformance case's own input.
  ValueId data_input(int32_t index, const TensorDesc& desc, Rows rows);
  ValueId weight(int32_t index, const TensorDesc& desc);

  /// Elements [begin, begin + length) of d0, as [length, d1, rows].
  ValueId slice(ValueId x, int64_t begin, int64_t length);
  /// d0 split into heads: [n, 1, rows] → [n / heads, heads, rows].
  ValueId split_heads(ValueId x, int64_t heads);
  /// The reverse: [d, heads, rows] → [d·heads, 1, rows]; x must be contiguous within a row.
  ValueId merge_heads(ValueId x);

  std::vector<ValueId> add_all(OpParams params, std::vector<ValueId> inputs);
  /// An operation of one output.
  ValueId add(OpParams params, std::vector<ValueId> inputs);
  void output(ValueId x);

  /// Nodes added from here on belong to this unit.
  void set_unit(Unit unit) { unit_ = unit; }
  void set_error(Status status);
  const Status& status() const { return status_; }
  const Value& value(ValueId id) const;
  int64_t max_rows() const { return graph_.max_rows_; }
  const KvGeometry& kv() const { return graph_.kv_; }

  Result<Graph> finish();

 private:
  ValueId add_value(Value value);
  ValueId view(ValueId x, int64_t offset, const TensorDesc& desc);

  InferOutputs infer_;
  Graph graph_;
  Unit unit_;
  Status status_;
};

}  // namespace infer
