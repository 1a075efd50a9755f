#include "backends/gpu/calls.h"

#include <algorithm>
#include <utility>

namespace infer::gpu {

Operand operand_at(const Graph& graph, ValueId id, std::span<const MemoryRef> memory,
                   const std::function<uint64_t(ValueId)>& input) {
  if (id == kNoValue) return {};
  const Value& value = graph.value(id);
  const ValueId storage = graph.storage(id);
  const auto offset = static_cast<uint64_t>(value.offset);
  if (graph.value(storage).kind == Value::Kind::input) return {&value, input(storage) + offset};
  const MemoryRef& at = memory[static_cast<size_t>(storage)];
  if (at.buffer == nullptr) return {&value, 0};  // never stored
  return {&value, address_of(at) + offset};
}

std::vector<Operand> operands_of(std::span<const ValueId> ids, const OperandOf& operand) {
  std::vector<Operand> all;
  for (const ValueId id : ids) all.push_back(operand(id));
  return all;
}

bool chooses_experts(const Graph& graph, const Node& node) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& other) {
    return other.op() == OpId::MoeRoute &&
           std::ranges::find(other.inputs, node.outputs[0]) != other.inputs.end();
  });
}

ProductCall product_of(const Node& node, std::span<const Operand> in,
                       std::span<const Operand> out) {
  ProductCall call;
  call.x = in[0];
  switch (node.op()) {
    case OpId::MoeMatmul:
      call.weights = {{in[1], in[3], in[4], out[0]}};
      call.ids = in[2];
      call.matrix = MatrixOf::by_ids;
      break;
    case OpId::HeadMatmul:
      call.weights = {{in[1], {}, {}, out[0]}};
      call.matrix = MatrixOf::by_place;
      break;
    default: call.weights = {{in[1], in[2], in[3], out[0]}};
  }
  return call;
}

ProductCall products_of(const Graph& graph, const FusedCall& call, const OperandOf& operand) {
  const auto node = [&](int32_t n) -> const Node& { return graph.nodes()[static_cast<size_t>(n)]; };
  ProductCall product;
  for (const int32_t n : call.nodes) {
    ProductCall single = product_of(node(n), operands_of(node(n).inputs, operand),
                                    operands_of(node(n).outputs, operand));
    if (product.weights.empty()) {
      product = std::move(single);
    } else {
      product.weights.push_back(single.weights[0]);
    }
  }
  if (call.norm >= 0) {
    product.norm = &std::get<op::RmsNorm>(node(call.norm).params);
    product.x = operand(node(call.norm).inputs[0]);
    product.norm_weight = operand(node(call.norm).inputs[1]);
  }
  if (call.glu >= 0) {
    product.glu = &std::get<op::Glu>(node(call.glu).params);
    product.weights[0].y = operand(node(call.glu).outputs[0]);
  }
  if (call.add >= 0) {
    product.add = &std::get<op::Add>(node(call.add).params);
    product.residual = operand(node(call.add).inputs[0]);
    product.weights[0].y = operand(node(call.add).outputs[0]);
  }
  return product;
}

RopeStoreCall ropes_of(const Graph& graph, const FusedCall& call, const OperandOf& operand) {
  const auto node = [&](size_t i) -> const Node& {
    return graph.nodes()[static_cast<size_t>(call.nodes[i])];
  };
  const Node& queries = node(0);
  const Node& store = node(2);
  RopeStoreCall in;
  in.rope = &std::get<op::Rope>(queries.params);
  in.q = operand(queries.inputs[0]);
  in.table = operand(queries.inputs[1]);
  in.y = operand(queries.outputs[0]);
  in.k = operand(node(1).inputs[0]);
  in.kv_layer = std::get<op::KvStore>(store.params).kv_layer;
  in.v = operand(store.inputs[1]);
  in.slots = operand(store.inputs[2]);
  in.sequences = operand(store.inputs[3]);
  return in;
}

}  // namespace infer::gpu
