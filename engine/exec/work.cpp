#include "engine/exec/work.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

int64_t rows_of(const Value& value, const StepShape& step) {
  switch (value.rows) {
    case Rows::tokens: return step.rows();
    case Rows::outputs: return step.outputs;
    case Rows::fixed: break;
  }
  return 1;
}

double moved_bytes(const Value& value, const StepShape& step) {
  return static_cast<double>(value.desc.row_bytes() * value.desc.shape[1] * rows_of(value, step));
}

/// Bytes of a weight that a node reads.
double read_of_weight(const Graph& graph, const Node& node, const TensorDesc& w, double rows) {
  const auto row = static_cast<double>(w.row_bytes());
  if (node.op() == OpId::Embed || w.type == DType::i32) return row * rows;  // of a table
  if (node.op() != OpId::MoeMatmul) return row * static_cast<double>(w.rows());
  const TensorDesc& matrices = graph.value(node.inputs[1]).desc;
  const auto experts = static_cast<double>(matrices.shape[2]);
  const auto used = static_cast<double>(graph.value(node.inputs[2]).desc.shape[0]);
  const double met = experts * (1 - std::pow(1 - used / experts, rows));
  return static_cast<double>(w.extent_bytes()) / experts * met;
}

/// Multiply-accumulates with weights for one row.
double macs_of_row(const Graph& graph, const Node& node) {
  const auto matrix = [&] {
    const TensorDesc& w = graph.value(node.inputs[1]).desc;
    return static_cast<double>(w.shape[0]) * static_cast<double>(w.shape[1]);
  };
  switch (node.op()) {
    case OpId::Matmul: return matrix();
    case OpId::HeadMatmul:
      return matrix() * static_cast<double>(graph.value(node.inputs[1]).desc.shape[2]);
    case OpId::MoeMatmul:
      return matrix() * static_cast<double>(graph.value(node.inputs[2]).desc.shape[0]);
    default: return 0;
  }
}

/// Bytes of one token's key and value in a layer.
double cache_row(const Graph& graph, int32_t layer) {
  const KvLayout layout = canonical_kv_layout(graph.kv());
  const KvLayerLayout& at = layout.layers[static_cast<size_t>(layer)];
  const int64_t row = at.v_offset == at.k_offset ? at.k_row : at.k_row + at.v_row;
  return static_cast<double>(row * graph.kv().layers[static_cast<size_t>(layer)].heads);
}

void add_attention(const Graph& graph, const Node& node, const StepShape& step, Work& work) {
  const auto& p = std::get<op::Attention>(node.params);
  const KvLayerShape& shape = graph.kv().layers[static_cast<size_t>(p.kv_layer)];
  double read = 0;  // keys, each once
  double met = 0;   // (row, key) pairs
  for (const RowRange& part : step.parts) {
    const int64_t end = part.first + part.count;
    const int64_t begin = p.window > 0 ? std::max<int64_t>(0, part.first - p.window + 1) : 0;
    read += static_cast<double>(end - begin);
    for (int64_t slot = part.first; slot < end; ++slot) {
      met += static_cast<double>(p.window > 0 ? std::min<int64_t>(slot + 1, p.window) : slot + 1);
    }
  }
  work.cache_bytes += read * cache_row(graph, p.kv_layer);
  const auto heads = static_cast<double>(graph.value(node.inputs[0]).desc.shape[1]);
  work.attention_macs += met * heads * (shape.k_dim + shape.v_dim);
}

/// Rows that choose what they see read it one by one.
void add_chosen(const Graph& graph, const Node& node, const StepShape& step, Work& work) {
  const auto& p = std::get<op::Attention>(node.params);
  const KvLayerShape& shape = graph.kv().layers[static_cast<size_t>(p.kv_layer)];
  const int64_t count = graph.value(node.inputs[5]).desc.shape[0];
  double met = 0;
  for (const RowRange& part : step.parts) {
    for (int64_t slot = part.first; slot < part.first + part.count; ++slot) {
      met += static_cast<double>(
          op::SelectSlots::given(slot, count, p.chosen_block, p.chosen_by_head));
    }
  }
  work.cache_bytes += met * cache_row(graph, p.kv_layer);
  const auto heads = static_cast<double>(graph.value(node.inputs[0]).desc.shape[1]);
  work.attention_macs += met * heads * (shape.k_dim + shape.v_dim);
}

/// Rows that see all have nothing to choose. Of a block one key is read, or by head all.
void add_selection(const Graph& graph, const Node& node, const StepShape& step, Work& work) {
  const auto& p = std::get<op::SelectSlots>(node.params);
  const int64_t keys = p.by_head ? p.block : 1;  // of a block
  double read = 0;
  double met = 0;
  for (const RowRange& part : step.parts) {
    const int64_t end = part.first + part.count;
    // Rows at this slot or behind do not see all.
    const int64_t most = p.numbers ? (int64_t{p.most()} + 1) * p.block - 1 : p.most();
    if (end > most) read += static_cast<double>(keys * p.blocks(end - 1));
    for (int64_t slot = std::max<int64_t>(part.first, most); slot < end; ++slot) {
      met += static_cast<double>(keys * p.blocks(slot));
    }
  }
  work.cache_bytes += read * cache_row(graph, p.kv_layer);
  const TensorDesc& q = graph.value(node.inputs[0]).desc;
  work.attention_macs += met * static_cast<double>(q.shape[0] * q.shape[1]);
}

/// The last slots are read once, blocks once too, unless rows choose them.
void add_pooled(const Graph& graph, const Node& node, const StepShape& step, Work& work) {
  const auto& p = std::get<op::PooledAttention>(node.params);
  const KvLayerShape& shape = graph.kv().layers[static_cast<size_t>(p.kv_layer)];
  const int64_t tokens = graph.kv().layers[static_cast<size_t>(p.pooled_layer)].tokens;
  const bool chosen = node.inputs[4] != kNoValue;
  double slots = 0;   // that are read
  double blocks = 0;  // that are read
  double met = 0;     // (row, key) pairs
  for (const RowRange& part : step.parts) {
    const int64_t end = part.first + part.count;
    slots += static_cast<double>(end - std::max<int64_t>(0, part.first - p.window + 1));
    if (!chosen) blocks += static_cast<double>(end / tokens);
    for (int64_t slot = part.first; slot < end; ++slot) {
      const int64_t most = chosen ? graph.value(node.inputs[4]).desc.shape[0] : slot + 1;
      const auto seen = static_cast<double>(op::PooledAttention::blocks(slot, tokens, most));
      if (chosen) blocks += seen;
      met += static_cast<double>(std::min<int64_t>(slot + 1, p.window)) + seen;
    }
  }
  work.cache_bytes += (slots + blocks) * cache_row(graph, p.kv_layer);
  const auto heads = static_cast<double>(graph.value(node.inputs[0]).desc.shape[1]);
  work.attention_macs += met * heads * (shape.k_dim + shape.v_dim);
}

/// A state is read and written once for each sequence.
void add_state(const Node& node, const StepShape& step, int64_t elements, Work& work) {
  work.cache_bytes +=
      static_cast<double>(step.parts.size()) * 2 * sizeof(float) * static_cast<double>(elements);
  // What is read along queries and keys, and what is written.
  constexpr double kPasses = 3;
  const bool by_element =
      node.op() == OpId::CausalConv || node.op() == OpId::BlockMean || node.op() == OpId::BlockPool;
  if (by_element) return;
  work.attention_macs += kPasses * static_cast<double>(elements * step.rows());
}

/// Elements of the state that a node works on; 0: none.
int64_t state_elements(const Graph& graph, const Node& node) {
  const auto& first = graph.value(node.inputs[0]).desc.shape;
  switch (node.op()) {
    case OpId::CausalConv: {
      const int32_t dilation = std::get<op::CausalConv>(node.params).dilation;
      return conv_state((graph.value(node.inputs[1]).desc.shape[0] - 1) * dilation + 1, first[0]);
    }
    case OpId::BlockMean: return first[0];
    case OpId::BlockPool: return 3 * first[0];
    case OpId::DeltaScan: {
      const auto& v = graph.value(node.inputs[2]).desc.shape;
      return scan_state(v[1], first[0], v[0]);
    }
    case OpId::SsmScan:
      return scan_state(first[1], graph.value(node.inputs[1]).desc.shape[0], first[0]);
    default: return 0;
  }
}

/// Texts are the parts of the step.
void add_text_attention(const Graph& graph, const Node& node, const StepShape& step, Work& work) {
  const auto& p = std::get<op::TextAttention>(node.params);
  double met = 0;  // (row, key) pairs
  for (const RowRange& part : step.parts) {
    for (int64_t row = 0; row < part.count; ++row) {
      const int64_t before = p.before < 0 ? row : std::min<int64_t>(row, p.before);
      const int64_t behind = part.count - 1 - row;
      const int64_t after = p.after < 0 ? behind : std::min<int64_t>(behind, p.after);
      met += static_cast<double>((p.chunk > 0 ? row % p.chunk : before) + 1 + after);
    }
  }
  const TensorDesc& q = graph.value(node.inputs[0]).desc;
  const int64_t dims = q.shape[0] + graph.value(node.inputs[2]).desc.shape[0];
  work.attention_macs += met * static_cast<double>(q.shape[1] * dims);
}

}  // namespace

int64_t StepShape::rows() const {
  int64_t rows = 0;
  for (const RowRange& part : parts) rows += part.count;
  return rows;
}

Work& Work::operator+=(const Work& other) {
  weight_bytes += other.weight_bytes;
  cache_bytes += other.cache_bytes;
  activation_bytes += other.activation_bytes;
  weight_macs += other.weight_macs;
  attention_macs += other.attention_macs;
  return *this;
}

Work node_work(const Graph& graph, const Node& node, const StepShape& step) {
  Work work;
  const Value& first = graph.value(node.outputs.empty() ? node.inputs[0] : node.outputs[0]);
  const auto rows = static_cast<double>(rows_of(first, step));
  if (rows == 0) return work;
  // A table's rows or a whole tensor's are gathered: what is read is as large as what is made.
  const bool gathers = node.op() == OpId::SelectRows;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    if (value.kind == Value::Kind::weight) {
      work.weight_bytes += read_of_weight(graph, node, value.desc, rows);
    } else {
      work.activation_bytes += moved_bytes(gathers && id == node.inputs[0] ? first : value, step);
    }
  }
  for (const ValueId id : node.outputs) work.activation_bytes += moved_bytes(graph.value(id), step);
  work.weight_macs += macs_of_row(graph, node) * rows;
  if (node.op() == OpId::Attention) {
    const bool chosen = node.inputs[5] != kNoValue;
    (chosen ? add_chosen : add_attention)(graph, node, step, work);
  }
  if (node.op() == OpId::PooledAttention) add_pooled(graph, node, step, work);
  if (node.op() == OpId::SelectSlots) add_selection(graph, node, step, work);
  if (const int64_t state = state_elements(graph, node); state > 0) {
    add_state(node, step, state, work);
  }
  if (node.op() == OpId::TextAttention) add_text_attention(graph, node, step, work);
  if (node.op() == OpId::KvStore) {
    const int32_t layer = std::get<op::KvStore>(node.params).kv_layer;
    const int32_t tokens = graph.kv().layers[static_cast<size_t>(layer)].tokens;
    work.activation_bytes += rows / tokens * cache_row(graph, layer);
  }
  return work;
}

Work step_work(const Graph& graph, const StepShape& step) {
  Work work;
  for (const Node& node : graph.nodes()) work += node_work(graph, node, step);
  return work;
}

}  // namespace infer
