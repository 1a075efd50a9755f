// The computation of one step as data: values, and the nodes that compute them. Nodes are in
// topological order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/core/tensor_desc.h"
#include "engine/graph/kv_geometry.h"
#include "engine/graph/params.h"

namespace infer {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// An input that the host gives to a program at every run. graph/params.h says how operations use
/// them.
enum class StepInput : uint8_t {
  tokens,       ///< i32 [1, 1, rows] token ids
  text_tokens,  ///< i32 [1, 1, rows] token ids, with 0, which pads texts, for the rows of images
  slots,        ///< i32 [1, 1, rows] place of the token in its sequence, from 0
  places,       ///< i32 [1, 1, rows] that of the slot in its block of `index` slots, from 0
  sequences,    ///< i32 [1, 1, rows] number of the block table
  output_rows,  ///< i32 [1, 1, outputs] rows that return results; `index` selects one of several
                ///< lists
  output_ends,  ///< i32 [1, 1, outputs] one past the last row of a result over several rows
  /// i32 [1, 1, rows] first row of the row's text, where texts are computed at once; `index`
  /// selects one of several divisions of the rows into texts
  text_begins,
  text_ends,    ///< i32 [1, 1, rows] one past the last row of the row's text
  token_types,  ///< i32 [1, 1, rows] 0, or 1 in the second of two texts that are given together
  last_seen,    ///< i32 [1, 1, rows] the last slot that a row sees, of images or blocks whose rows
                ///< see each other
  rope_table,   ///< f32 [2, pairs, rows]; `index` selects one of the model's RoPE kinds
  image,        ///< f32 [width, 1, rows] what images give to rows; 0 for the others;
                ///< ModelInfo::takes_images
  adapter,      ///< f32 [1, 1, rows] what the adapter of this index is multiplied with in a row
  hidden,       ///< f32 [width, 1, rows] hidden states: index 0 of another model, 1 of this one
  ngrams,       ///< f32 [width, 1, rows] rows of the table of n-grams; ModelInfo::ngrams
  data,         ///< input number `index` of a conformance case, of any shape
};

/// What shape[2] of a value counts.
enum class Rows : uint8_t {
  fixed,    ///< not rows of the step: a weight
  tokens,   ///< the tokens of the step
  outputs,  ///< the rows of the step that return results
};

/// A tensor of the graph. If it has rows, shape[2] is the largest number that the graph allows.
struct Value {
  enum class Kind : uint8_t { input, weight, result, view };
  Kind kind = Kind::result;
  Rows rows = Rows::fixed;
  TensorDesc desc;
  StepInput input = StepInput::tokens;  ///< input: which kind
  int32_t index = 0;                    ///< weight: its number; input: see StepInput
  ValueId base = kNoValue;              ///< view: the value it is part of, never a view itself
  int64_t offset = 0;                   ///< view: bytes from the start of the base
};

/// The parts of a model that can each be on another device. `feed_forward`: in a layer with experts
/// the norms, the router and the shared expert.
enum class UnitKind : uint8_t { embedding, attention, feed_forward, experts, output };

struct Unit {
  UnitKind kind = UnitKind::embedding;
  int32_t layer = -1;
  bool operator==(const Unit&) const = default;
};

struct Node {
  OpParams params;
  std::vector<ValueId> inputs;  ///< kNoValue for an optional input that is left out
  std::vector<ValueId> outputs;
  Unit unit;

  OpId op() const { return op_id(params); }
};

/// The layer whose cache a node reads or writes; -1: none.
int32_t cache_layer(const Node& node);
/// A second one that it reads: op::PooledAttention. −1: none.
int32_t pooled_layer(const Node& node);

/// Immutable once built; made by GraphBuilder.
class Graph {
 public:
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  /// The value whose memory this value uses: the base of a view, otherwise the value itself.
  ValueId storage(ValueId id) const { return value(id).base == kNoValue ? id : value(id).base; }
  /// The values that the host reads after a run.
  const std::vector<ValueId>& outputs() const { return outputs_; }
  /// The output with this name; kNoValue if there is none.
  ValueId output(std::string_view name) const;
  int64_t max_rows() const { return max_rows_; }
  int64_t max_outputs() const { return max_outputs_; }
  const KvGeometry& kv() const { return kv_; }

 private:
  friend class GraphBuilder;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> outputs_;
  std::vector<std::string> output_names_;  ///< of outputs_
  int64_t max_rows_ = 0;
  int64_t max_outputs_ = 0;
  KvGeometry kv_;
};

/// The origin of a step's tokens. `generated`: the model chose or drafted them. `prompt`: they were
/// given. `both`: some of each. A device with two numeric classes (Device::two_classes) may compute
/// prompts faster and less exactly. All other devices use `generated` for every token.
enum class Roles : uint8_t { generated, prompt, both };

/// Nodes [begin, end) of a graph, run by one device.
struct Segment {
  const Graph* graph = nullptr;
  int32_t begin = 0;
  int32_t end = 0;
  Roles roles = Roles::generated;  ///< of the tokens in a run

  std::span<const Node> nodes() const {
    return std::span(graph->nodes())
        .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
};

/// The inputs of a node; null for an optional input that is left out.
using InputDescs = std::span<const Value* const>;

/// A result of an operation. engine/ops checks the inputs and infers it.
struct OutputDesc {
  TensorDesc desc;
  Rows rows = Rows::tokens;
};
using InferOutputs = Result<std::vector<OutputDesc>> (*)(const OpParams&, InputDescs,
                                                         const KvGeometry&);

/// Builds a Graph. The first failure is kept; later calls do nothing and return kNoValue, and
/// finish() returns the failure. So code that builds a graph needs no check on every line.
class GraphBuilder {
 public:
  /// `infer` checks a node and infers its results (ops/op.h: infer_outputs).
  GraphBuilder(InferOutputs infer, int64_t max_rows, int64_t max_outputs, KvGeometry kv);

  /// The value of a step input. Equal calls return the same value.
  /// `width`: pairs of a table, elements of a hidden state, 1 of an adapter.
  ValueId input(StepInput kind, int32_t index = 0, int64_t width = 0);
  /// An input of a conformance case.
  ValueId data_input(int32_t index, const TensorDesc& desc, Rows rows);
  ValueId weight(int32_t index, const TensorDesc& desc);

  /// Elements [begin, begin + length) of d0, as [length, d1, rows].
  ValueId slice(ValueId x, int64_t begin, int64_t length);
  /// Splits d0 into heads: [n, 1, rows] → [n / heads, heads, rows].
  ValueId split_heads(ValueId x, int64_t heads);
  /// The reverse: [d, heads, rows] → [d·heads, 1, rows]. x must be contiguous within a row.
  ValueId merge_heads(ValueId x);

  /// Adds a node and returns its results.
  std::vector<ValueId> add_all(OpParams params, std::vector<ValueId> inputs);
  /// Adds a node with one result.
  ValueId add(OpParams params, std::vector<ValueId> inputs);
  /// Marks a value that the host reads after a run. `name`: see Graph::output.
  void output(ValueId x, std::string name = {});

  /// Assigns the nodes added from now on to this unit.
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
