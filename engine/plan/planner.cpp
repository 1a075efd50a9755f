#include "engine/plan/planner.h"

#include <algorithm>
#include <bit>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/plan/arena.h"

namespace infer {
namespace {

/// Context when nobody asked for one: long enough for a conversation, at most what it was trained
/// for, and no more than half of what the weights leave free.
constexpr int64_t kDefaultContext = 4096;

int64_t round_to_pages(int64_t tokens) { return round_up<int64_t>(tokens, kPageTokens); }

int64_t& of(MemoryPlan& plan, Purpose purpose) { return plan.bytes[static_cast<size_t>(purpose)]; }

void place_weights(const Graph& graph, const Device& device, MemoryPlan& plan) {
  int64_t at = 0;
  for (const Value& value : graph.values()) {
    if (value.kind != Value::Kind::weight) continue;
    int64_t& offset = plan.weight_offsets[static_cast<size_t>(value.index)];
    if (offset >= 0) continue;
    offset = at;
    at += round_up(device.packed_bytes(value.desc), device.alignment());
  }
  of(plan, Purpose::weights) = at;
}

/// All programs share one arena and one scratch, as large as the largest need.
void add_work_space(const Graph& graph, const Device& device, MemoryPlan& plan) {
  int64_t& activations = of(plan, Purpose::activations);
  activations =
      std::max(activations, plan_arena(graph, device.phases(graph), device.alignment()).bytes);
  int64_t& scratch = of(plan, Purpose::scratch);
  scratch = std::max(scratch,
                     device.scratch_bytes({&graph, 0, static_cast<int32_t>(graph.nodes().size())}));
}

}  // namespace

int64_t MemoryPlan::total() const {
  int64_t sum = 0;
  for (const int64_t b : bytes) sum += b;
  return sum;
}

std::string format_bytes(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} KiB", value / (1 << 10));
}

int64_t row_bucket(int64_t rows, int64_t max_rows) {
  return std::min(max_rows, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
}

Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type) {
  GraphBuilder builder(infer_outputs, rows, outputs, {model.info().kv_layers, k_type, v_type});
  ModelBuilder model_builder(builder, weights, model.info());
  model.build(model_builder);
  return builder.finish();
}

Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights, const Device& device,
                               const PlanRequest& request) {
  const auto build = [&](int64_t rows) {
    return build_graph(model, weights, rows, std::min(request.max_outputs, rows), request.k_type,
                       request.v_type);
  };
  INFER_TRY(const Graph graph, build(request.max_rows));
  for (const Node& node : graph.nodes()) {
    const Status capable = device.capability(graph, node);
    if (!capable.ok()) {
      return fail(capable.code(), "{}: {} cannot run '{}' of layer {}: {}",
                  weights.source().metadata().source(), device.info().name, op_def(node.op()).name,
                  node.unit.layer, capable.message());
    }
  }

  MemoryPlan plan;
  plan.weight_offsets.assign(weights.source().weights().size(), -1);
  place_weights(graph, device, plan);
  if (request.weights_mapped) of(plan, Purpose::weights) = 0;
  add_work_space(graph, device, plan);
  for (int64_t rows = 1; rows < request.max_rows; rows *= 2) {  // one program a bucket
    INFER_TRY(const Graph smaller, build(rows));
    add_work_space(smaller, device, plan);
  }
  plan.page_bytes = round_up(canonical_kv_layout(graph.kv()).page_bytes, device.alignment());
  plan.available = request.memory_limit > 0 ? request.memory_limit : device.info().memory_free;

  const int64_t fixed = plan.total();
  if (fixed + plan.page_bytes > plan.available) {
    return fail(StatusCode::does_not_fit,
                "the weights do not fit: they need {} and {} of work space, {} has {} free",
                format_bytes(of(plan, Purpose::weights)),
                format_bytes(fixed - of(plan, Purpose::weights)), device.info().name,
                format_bytes(plan.available));
  }
  const int64_t page_limit =
      plan.page_bytes == 0 ? INT32_MAX : (plan.available - fixed) / plan.page_bytes;
  // Slots and positions are 32-bit; beyond that the sums below could wrap as well.
  if (request.context > INT32_MAX) {
    return fail(StatusCode::does_not_fit,
                "a context of {} tokens does not fit: at most {} can be counted", request.context,
                INT32_MAX);
  }
  plan.context = request.context;
  if (plan.context <= 0) {
    plan.context = std::min(model.info().context, kDefaultContext);
    plan.context = std::min(plan.context, std::max<int64_t>(1, page_limit / 2) * kPageTokens);
  }
  plan.pages = round_to_pages(plan.context) / kPageTokens;
  of(plan, Purpose::kv) = plan.pages * plan.page_bytes;
  if (plan.pages > page_limit) {
    return fail(StatusCode::does_not_fit,
                "a context of {} tokens does not fit: its cache needs {}, {} is free after the "
                "weights; {} tokens would fit",
                plan.context, format_bytes(of(plan, Purpose::kv)),
                format_bytes(plan.available - fixed), page_limit * kPageTokens);
  }
  return plan;
}

}  // namespace infer
