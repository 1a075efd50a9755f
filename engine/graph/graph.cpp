#include "engine/graph/graph.h"

namespace infer {
namespace {

const Value kNothing{};

}  // namespace

const char* op_name(OpId id) {
  static constexpr const char* kNames[] = {
#define INFER_OP(type, name) #name,
#include "engine/graph/ops.def"
#undef INFER_OP
  };
  return kNames[static_cast<size_t>(id)];
}

int32_t cache_layer(const Node& node) {
  return std::visit(
      [](const auto& params) -> int32_t {
        if constexpr (requires { params.kv_layer; }) {
          return params.kv_layer;
        } else {
          return -1;
        }
      },
      node.params);
}

int32_t pooled_layer(const Node& node) {
  const auto* attention = std::get_if<op::PooledAttention>(&node.params);
  return attention == nullptr ? -1 : attention->pooled_layer;
}

GraphBuilder::GraphBuilder(InferOutputs infer, int64_t max_rows, int64_t max_outputs, KvGeometry kv)
    : infer_(infer) {
  graph_.max_rows_ = max_rows;
  graph_.max_outputs_ = max_outputs;
  graph_.kv_ = std::move(kv);
}

void GraphBuilder::set_error(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

const Value& GraphBuilder::value(ValueId id) const {
  return id == kNoValue ? kNothing : graph_.value(id);
}

ValueId GraphBuilder::add_value(Value value) {
  graph_.values_.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values_.size() - 1);
}

ValueId GraphBuilder::input(StepInput kind, int32_t index, int64_t width) {
  for (size_t i = 0; i < graph_.values_.size(); ++i) {
    const Value& v = graph_.values_[i];
    if (v.kind == Value::Kind::input && v.input == kind && v.index == index) {
      return static_cast<ValueId>(i);
    }
  }
  Value v;
  v.kind = Value::Kind::input;
  v.input = kind;
  v.index = index;
  const bool of_outputs = kind == StepInput::output_rows || kind == StepInput::output_ends;
  v.rows = of_outputs ? Rows::outputs : Rows::tokens;
  const int64_t rows = v.rows == Rows::outputs ? graph_.max_outputs_ : graph_.max_rows_;
  const bool wide = kind == StepInput::hidden || kind == StepInput::image ||
                    kind == StepInput::adapter || kind == StepInput::ngrams;
  v.desc = kind == StepInput::rope_table ? tensor(DType::f32, 2, width, rows)
           : wide                        ? tensor(DType::f32, width, 1, rows)
                                         : tensor(DType::i32, 1, 1, rows);
  return add_value(std::move(v));
}

ValueId GraphBuilder::data_input(int32_t index, const TensorDesc& desc, Rows rows) {
  Value v;
  v.kind = Value::Kind::input;
  v.input = StepInput::data;
  v.index = index;
  v.rows = rows;
  v.desc = desc;
  return add_value(std::move(v));
}

ValueId GraphBuilder::weight(int32_t index, const TensorDesc& desc) {
  if (!status_.ok()) return kNoValue;
  Value v;
  v.kind = Value::Kind::weight;
  v.index = index;
  v.desc = desc;
  return add_value(std::move(v));
}

ValueId GraphBuilder::view(ValueId x, int64_t offset, const TensorDesc& desc) {
  const Value& of = graph_.value(x);
  Value v;
  v.kind = Value::Kind::view;
  v.rows = of.rows;
  v.desc = desc;
  v.base = graph_.storage(x);
  v.offset = of.offset + offset;
  return add_value(std::move(v));
}

ValueId GraphBuilder::slice(ValueId x, int64_t begin, int64_t length) {
  if (!status_.ok()) return kNoValue;
  TensorDesc desc = value(x).desc;
  if (is_quantised(desc.type) || begin < 0 || length < 0 || begin + length > desc.shape[0]) {
    set_error(error(StatusCode::internal, "slice [{}, {}) of {}", begin, begin + length,
                    to_string(desc)));
    return kNoValue;
  }
  desc.shape[0] = length;
  return view(x, begin * desc.stride[0], desc);
}

ValueId GraphBuilder::split_heads(ValueId x, int64_t heads) {
  if (!status_.ok()) return kNoValue;
  TensorDesc desc = value(x).desc;
  if (desc.shape[1] != 1 || heads <= 0 || desc.shape[0] % heads != 0) {
    set_error(
        error(StatusCode::internal, "{} cannot be split into {} heads", to_string(desc), heads));
    return kNoValue;
  }
  desc.shape[0] /= heads;
  desc.shape[1] = heads;
  desc.stride[1] = desc.shape[0] * desc.stride[0];
  return view(x, 0, desc);
}

ValueId GraphBuilder::merge_heads(ValueId x) {
  if (!status_.ok()) return kNoValue;
  TensorDesc desc = value(x).desc;
  if (desc.shape[1] != 1 && desc.stride[1] != desc.shape[0] * desc.stride[0]) {
    set_error(error(StatusCode::internal, "heads of {} do not lie together", to_string(desc)));
    return kNoValue;
  }
  desc.shape[0] *= desc.shape[1];
  desc.shape[1] = 1;
  desc.stride[1] = desc.shape[0] * desc.stride[0];
  return view(x, 0, desc);
}

std::vector<ValueId> GraphBuilder::add_all(OpParams params, std::vector<ValueId> inputs) {
  if (!status_.ok()) return {};
  std::vector<const Value*> descs;
  for (const ValueId id : inputs) descs.push_back(id == kNoValue ? nullptr : &graph_.value(id));
  Result<std::vector<OutputDesc>> made = infer_(params, descs, graph_.kv_);
  if (!made) {
    set_error(std::move(made).error());
    return {};
  }
  Node node{std::move(params), std::move(inputs), {}, unit_};
  for (OutputDesc& out : *made) {
    Value v;
    v.rows = out.rows;
    v.desc = out.desc;
    node.outputs.push_back(add_value(std::move(v)));
  }
  graph_.nodes_.push_back(std::move(node));
  return graph_.nodes_.back().outputs;
}

ValueId GraphBuilder::add(OpParams params, std::vector<ValueId> inputs) {
  const std::vector<ValueId> made = add_all(std::move(params), std::move(inputs));
  return made.empty() ? kNoValue : made.front();
}

void GraphBuilder::output(ValueId x, std::string name) {
  if (!status_.ok()) return;
  graph_.outputs_.push_back(x);
  graph_.output_names_.push_back(std::move(name));
}

ValueId Graph::output(std::string_view name) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (output_names_[i] == name) return outputs_[i];
  }
  return kNoValue;
}

Result<Graph> GraphBuilder::finish() {
  if (!status_.ok()) return tl::unexpected(status_);
  return std::move(graph_);
}

}  // namespace infer
