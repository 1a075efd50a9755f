#include "backends/vulkan/submissions.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace infer::vulkan {
namespace {

constexpr double kMacsOfByte = 10;
/// Of rows that share no keys with others, the work of a multiply-accumulate: four heads read an
/// element of two bytes together.
constexpr double kApart = kMacsOfByte * 2 / 4;
/// The same where all heads of a row share a key, but in registers alone.
constexpr double kOfIndex = 2;

double as_double(int64_t x) { return static_cast<double>(x); }

/// Counts attention of a node whose result is y.
class AttentionWork {
 public:
  AttentionWork(const Segment& segment, const Node& node, const Target& target, int64_t context)
      : graph_(*segment.graph),
        node_(node),
        y_(graph_.value(node.outputs[0]).desc),
        context_(context),
        rows_apart_(segment.roles == Roles::generated || target.tuning.splits(y_.shape[2]) ||
                    target.tuning.tile_queries == 0) {}

  double of(const op::Attention& p) const {
    const KvLayerShape& shape = layer(p.kv_layer);
    const Value* chosen = input(5);
    int64_t keys = context_;
    if (p.window > 0) keys = std::min<int64_t>(keys, p.window);
    if (chosen != nullptr) keys = std::min(keys, chosen->desc.shape[0]);
    const bool apart = rows_apart_ || chosen != nullptr;
    return queries() * as_double(shape.k_dim + shape.v_dim) * as_double(keys) *
           (apart ? kApart : 1);
  }

  double of(const op::PooledAttention& p) const {
    const KvLayerShape& shape = layer(p.kv_layer);
    const Value* chosen = input(4);
    int64_t blocks = context_ / layer(p.pooled_layer).tokens;
    if (chosen != nullptr) blocks = std::min(blocks, chosen->desc.shape[0]);
    const int64_t keys = blocks + std::min<int64_t>(context_, p.window);
    return queries() * as_double(shape.k_dim + shape.v_dim) * as_double(keys) * kApart;
  }

  double of(const op::SelectSlots& p) const {
    const TensorDesc& q = graph_.value(node_.inputs[0]).desc;
    const int64_t keys = p.by_head ? context_ : context_ / p.block;
    return as_double(q.elements()) * as_double(keys) * kOfIndex;
  }

  double of(const op::TextAttention&) const {
    return 2 * as_double(y_.elements()) * as_double(y_.shape[2]);
  }

 private:
  double queries() const { return as_double(y_.shape[1] * y_.shape[2]); }
  const KvLayerShape& layer(int32_t i) const { return graph_.kv().layers[static_cast<size_t>(i)]; }
  const Value* input(size_t i) const {
    return node_.inputs[i] == kNoValue ? nullptr : &graph_.value(node_.inputs[i]);
  }

  const Graph& graph_;
  const Node& node_;
  const TensorDesc& y_;
  int64_t context_;
  bool rows_apart_;
};

double product_work(const Graph& graph, const Node& node) {
  const double results =
      node.outputs.empty() ? 0 : as_double(graph.value(node.outputs[0]).desc.elements());
  double work = 0;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    if (value.kind != Value::Kind::weight || value.desc.shape[1] == 1) continue;
    work += results * as_double(value.desc.shape[0]) +
            kMacsOfByte * as_double(value.desc.extent_bytes());
  }
  return work;
}

}  // namespace

double work_of(const Segment& segment, const FusedCall& call, const Target& target,
               int64_t context) {
  double work = 0;
  for (int32_t n = call.begin(); n < call.end(); ++n) {
    const Node& node = segment.graph->nodes()[static_cast<size_t>(n)];
    work += product_work(*segment.graph, node);
    const auto count = [&]<typename Params>() {
      const auto* params = std::get_if<Params>(&node.params);
      if (params != nullptr) work += AttentionWork(segment, node, target, context).of(*params);
    };
    count.template operator()<op::Attention>();
    count.template operator()<op::PooledAttention>();
    count.template operator()<op::SelectSlots>();
    count.template operator()<op::TextAttention>();
  }
  return work;
}

int64_t counted_context(int64_t context, const Tuning& tuning) {
  const int64_t tokens = std::max({context, tuning.least_context, int64_t{1}});
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
}

std::vector<int64_t> submissions_of(std::span<const double> work, double most) {
  std::vector<int64_t> submissions;
  double running = 0;
  for (const double more : work) {
    if (running + more <= most) {
      running += more;
      submissions.push_back(0);
      continue;
    }
    constexpr double kMost = 1 << 20;  // no call has as many rows
    const auto parts = static_cast<int64_t>(std::clamp(std::ceil(more / most), 1.0, kMost));
    submissions.push_back(parts);
    running = parts > 1 ? most : more;
  }
  return submissions;
}

}  // namespace infer::vulkan
