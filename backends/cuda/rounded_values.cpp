#include "backends/cuda/rounded_values.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/half_product.h"
#include "backends/cuda/ops/attention.h"
#include "backends/cuda/packing.h"
#include "backends/cuda/product.h"

namespace infer::cuda {
namespace {

/// Answers of which values are rounded, for one segment.
class Search {
 public:
  Search(const Segment& segment, std::span<const FusedCall> calls, const Target& target)
      : segment_(segment), graph_(*segment.graph), calls_(calls), target_(target) {}

  /// The value that a call may round: the activation of a gate and an up, or what attention makes.
  std::optional<ValueId> made_by(const FusedCall& call) const {
    if (call.glu >= 0 && call.nodes.size() == 2 && multiplies_bytes(node(call.nodes[0]))) {
      return node(call.glu).outputs[0];
    }
    if (call.fused() && call.attention < 0) return {};
    const Node& attention = node(call.fused() ? call.attention : call.nodes[0]);
    if (merges_chunks(attention)) return attention.outputs[0];
    return {};
  }

  /// Runs of a tile whose sums the products want that take a value; none if it stays in floats.
  std::optional<uint32_t> runs_wanted(ValueId id) const {
    const Value& value = graph_.value(id);
    const TensorDesc& desc = value.desc;
    if (value.kind != Value::Kind::result || desc.shape[2] != 1) return {};
    if (desc.elements() % kTileElements != 0) return {};
    const std::vector<ValueId> forms = forms_of(id);
    for (const ValueId same : forms) {
      if (std::ranges::count(graph_.outputs(), same) > 0) return {};
    }
    std::optional<uint32_t> runs;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto number = static_cast<int32_t>(i);
      for (const ValueId same : forms) {
        if (std::ranges::count(node(number).inputs, same) == 0) continue;
        if (!takes_bytes(number, same, desc.elements())) return {};
        const uint32_t own = summed_runs(weight_type(node(number)));
        if (runs.value_or(own) != own) return {};
        runs = own;
      }
    }
    return runs;
  }

  /// A value and its views.
  std::vector<ValueId> forms_of(ValueId id) const {
    std::vector<ValueId> forms{id};
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      const Value& value = graph_.values()[i];
      if (value.kind == Value::Kind::view && value.base == id) {
        forms.push_back(static_cast<ValueId>(i));
      }
    }
    return forms;
  }

 private:
  const Node& node(int32_t i) const { return graph_.nodes()[static_cast<size_t>(i)]; }
  DType weight_type(const Node& product) const { return graph_.value(product.inputs[1]).desc.type; }

  /// Whether a node is a product of one row that weights/column.cu computes.
  bool multiplies_bytes(const Node& product) const {
    if (product.op() != OpId::Matmul) return false;
    const TensorDesc& y = graph_.value(product.outputs[0]).desc;
    const NodeView view{graph_, product, target_.gpu};
    return y.shape[1] == 1 && y.shape[2] == 1 &&
           rounds_activations(weight_type(product), target_.tuning) &&
           !uses_halves(view, target_.tuning, segment_.roles);
  }

  /// Whether chunks of attention are merged to the results of a node, by whole tiles.
  bool merges_chunks(const Node& attention) const {
    if (attention.op() != OpId::Attention || !target_.tuning.fuse) return false;
    if (segment_.roles != Roles::generated || target_.tuning.split_rows < 1) return false;
    return graph_.value(attention.outputs[0]).desc.shape[0] % kResultElements == 0;
  }

  /// Whether a node is a product of bytes of the segment, of all elements of a value.
  bool takes_bytes(int32_t number, ValueId id, int64_t elements) const {
    if (number < segment_.begin || number >= segment_.end) return false;
    const Value& value = graph_.value(id);
    if (value.offset != 0 || value.desc.shape[0] != elements) return false;
    if (!multiplies_bytes(node(number)) || node(number).inputs[0] != id) return false;
    if (std::ranges::count(node(number).inputs, id) != 1) return false;
    const auto call = std::ranges::find_if(
        calls_, [&](const FusedCall& c) { return c.begin() <= number && number < c.end(); });
    return call != calls_.end() && call->norm < 0;
  }

  const Segment& segment_;
  const Graph& graph_;
  std::span<const FusedCall> calls_;
  const Target& target_;
};

}  // namespace

RoundedValues::RoundedValues(const Segment& segment, std::span<const FusedCall> calls,
                             const Target& target)
    : graph_(*segment.graph), runs_(segment.graph->values().size(), kFloats) {
  const Search search(segment, calls, target);
  for (const FusedCall& call : calls) {
    const std::optional<ValueId> value = search.made_by(call);
    const std::optional<uint32_t> runs = value ? search.runs_wanted(*value) : std::nullopt;
    if (!runs) continue;
    for (const ValueId same : search.forms_of(*value)) {
      runs_[static_cast<size_t>(same)] = static_cast<int8_t>(*runs);
    }
  }
}

int8_t RoundedValues::of(const Operand& operand) const {
  return runs_[static_cast<size_t>(operand.value - graph_.values().data())];
}

ColumnBytes RoundedValues::bytes(const Operand& operand) const {
  if (of(operand) == kFloats) return {};
  const auto tiles = static_cast<uint64_t>(operand.value->desc.elements() / kTileElements);
  return {.words = operand.address,
          .scales = operand.address + tiles * 64,
          .sums = operand.address + tiles * 80,
          .columns = 1,
          .d1 = 1};
}

uint32_t RoundedValues::runs(const Operand& operand) const {
  return static_cast<uint32_t>(std::max(of(operand), int8_t{0}));
}

}  // namespace infer::cuda
