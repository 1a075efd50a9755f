#include "engine/plan/planner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/plan/host_bytes.h"

namespace infer {
namespace {

/// Context when nobody asked for one: long enough for a conversation, at most what it was trained
/// for, and no more than half of what the weights leave free.
constexpr int64_t kDefaultContext = 4096;

int64_t& of(MemoryPlan& plan, Purpose purpose) { return plan.bytes[static_cast<size_t>(purpose)]; }

/// The fewest rows that a step is cut down to, and the least context worth it where none is asked.
constexpr int64_t kFewestRows = 16;
constexpr int64_t kShortContext = 512;

/// Pages of a mapped file that come into memory around those touched, on either side of a weight.
constexpr int64_t kFaultAround = 64 << 10;

/// Where weights lie, packed one after another; and as they lie in the file: all of them, and the
/// most that two layers in a row use.
struct WeightsPlan {
  std::vector<WeightPlace> places;
  std::vector<int64_t> buffers;
  int64_t packed = 0;
  int64_t mapped = 0;
  int64_t window = 0;
};

Result<WeightsPlan> place_weights(const Graph& graph, const Device& device,
                                  std::span<const Weight> weights) {
  WeightsPlan plan;
  plan.places.resize(weights.size());
  for (const Value& value : graph.values()) {
    if (value.kind != Value::Kind::weight) continue;
    const auto index = static_cast<size_t>(value.index);
    WeightPlace& place = plan.places[index];
    if (place.buffer >= 0) continue;
    const int64_t bytes = round_up(device.packed_bytes(value.desc), device.alignment());
    if (bytes > device.largest_buffer()) {
      return fail(StatusCode::does_not_fit,
                  "tensor '{}' needs {} in one piece, {} gives at most {}", weights[index].name,
                  format_bytes(bytes), device.info().name, format_bytes(device.largest_buffer()));
    }
    if (plan.buffers.empty() || bytes > device.largest_buffer() - plan.buffers.back()) {
      plan.buffers.push_back(0);
    }
    place = {static_cast<int32_t>(plan.buffers.size()) - 1, plan.buffers.back()};
    plan.buffers.back() += bytes;
    plan.packed += bytes;
    plan.mapped += value.desc.extent_bytes();
  }
  int64_t before = 0;
  int64_t now = 0;
  int32_t layer = graph.nodes().empty() ? 0 : graph.nodes()[0].unit.layer;
  for (const Node& node : graph.nodes()) {
    if (node.unit.layer != layer) {
      before = std::exchange(now, 0);
      layer = node.unit.layer;
    }
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const Value& value = graph.value(graph.storage(id));
      if (value.kind == Value::Kind::weight) now += value.desc.extent_bytes() + 2 * kFaultAround;
    }
    plan.window = std::max(plan.window, before + now);
  }
  return plan;
}

/// What the program of one row bucket adds. All programs share one arena and one scratch, as large
/// as the largest need.
struct Bucket {
  int64_t rows = 0;
  int64_t activations = 0;
  int64_t scratch = 0;
  int64_t program = 0;
};

Bucket measure(const Graph& graph, const Device& device, bool observed) {
  const StepMemory memory = plan_step(graph, device, observed);
  return {graph.max_rows(), memory.arena.bytes, memory.scratch, step_program_bytes(graph)};
}

/// Plans of one model on one device that differ in what is asked of them.
class Planner {
 public:
  Planner(const Model& model, const WeightTable& weights, const Device& device)
      : model_(model), weights_(weights), device_(device), info_(device.info()) {}

  /// The first that fits: with the types asked for, then with those that may be taken instead.
  Result<MemoryPlan> plan(const PlanRequest& request) {
    Result<MemoryPlan> plan = plan_types(request);
    const bool other = request.k_auto || request.v_auto;
    if (plan || !other || plan.error().code() != StatusCode::does_not_fit) return plan;
    PlanRequest small = request;
    if (request.k_auto) small.k_type = DType::q8_0;
    if (request.v_auto) small.v_type = DType::q8_0;
    Result<MemoryPlan> second = plan_types(small);
    if (second || second.error().code() == StatusCode::does_not_fit) return second;
    return plan;
  }

  /// What would fit instead: the end of a message.
  std::string advice(const PlanRequest& request) {
    std::string text;
    const auto fits = [&](const PlanRequest& changed) { return plan(changed).has_value(); };
    PlanRequest small = request;
    small.k_type = small.v_type = DType::q8_0;
    const bool smaller = dtype_info(request.k_type).block_elements == 1 ||
                         dtype_info(request.v_type).block_elements == 1;
    if (smaller && fits(small)) text += "; with -ctk q8_0 -ctv q8_0 it fits";
    PlanRequest mapped = request;
    mapped.weights_mapped = mapped.spill = true;
    if (!request.spill && fits(mapped)) {
      text += "; with --spill it runs, slowly, from the file";
    }
    PlanRequest larger = request;
    larger.memory_limit = int64_t{1} << 60;
    larger.pretend = true;
    if (const Result<MemoryPlan> free = plan(larger)) {
      text += fmt::format("; --memory {} and as much free memory would do",
                          format_bytes(free->total() + (free->total() >> 8)));
    }
    return text;
  }

 private:
  Result<MemoryPlan> plan_types(const PlanRequest& request) {
    INFER_CHECK_R(build(request));
    for (int64_t rows = request.max_rows;;) {
      Result<MemoryPlan> plan = plan_rows(request, rows);
      const int64_t fewer = row_bucket(rows, INT64_MAX) / 2;  // the next smaller power of two
      if (plan || !request.fewer_rows || fewer < kFewestRows) return plan;
      if (plan.error().code() != StatusCode::does_not_fit) return plan;
      rows = fewer;
    }
  }

  /// Measures the programs of these types, once.
  Status build(const PlanRequest& request) {
    const auto types = std::pair(request.k_type, request.v_type);
    if (!buckets_.empty() && types == types_) return {};
    buckets_.clear();
    types_ = types;
    const auto graph_of = [&](int64_t rows) {
      return build_graph(model_, weights_, rows, std::min(request.max_outputs, rows), types.first,
                         types.second);
    };
    INFER_TRY_S(const Graph graph, graph_of(request.max_rows));
    for (const Node& node : graph.nodes()) {
      const Status capable = device_.capability(graph, node);
      if (!capable.ok()) {
        return error(capable.code(), "{}: {} cannot run '{}' of layer {}: {}",
                     weights_.source().metadata().source(), info_.name, op_def(node.op()).name,
                     node.unit.layer, capable.message());
      }
    }
    INFER_TRY_S(placed_, place_weights(graph, device_, weights_.source().weights()));
    layout_ = canonical_kv_layout(graph.kv());
    for (KvKind& kind : layout_.kinds) {
      kind.page_bytes = round_up(kind.page_bytes, device_.alignment());
    }
    for (int64_t rows = 1; rows < request.max_rows; rows *= 2) {
      INFER_TRY_S(const Graph smaller, graph_of(rows));
      buckets_.push_back(measure(smaller, device_, request.observed));
    }
    buckets_.push_back(measure(graph, device_, request.observed));
    return {};
  }

  /// `rows` at most in a step: those asked for or a smaller power of two.
  Result<MemoryPlan> plan_rows(const PlanRequest& request, int64_t rows) const {
    MemoryPlan plan;
    plan.weight_places = placed_.places;
    plan.weight_buffers = placed_.buffers;
    plan.kv_layout = layout_;
    plan.max_rows = rows;
    plan.max_outputs = std::min(request.max_outputs, rows);
    plan.k_type = request.k_type;
    plan.v_type = request.v_type;
    plan.file_weights = placed_.mapped;
    of(plan, Purpose::process) =
        model_bytes(weights_.source()) + (request.beside ? 0 : program_bytes(info_));
    plan.reserve = request.reserve >= 0 ? request.reserve : default_reserve(info_.memory_free);
    plan.available = budget(request, plan.reserve, of(plan, Purpose::process));
    for (const Bucket& bucket : buckets_) {
      if (bucket.rows > rows) break;
      of(plan, Purpose::activations) = std::max(of(plan, Purpose::activations), bucket.activations);
      of(plan, Purpose::scratch) = std::max(of(plan, Purpose::scratch), bucket.scratch);
      of(plan, Purpose::process) += bucket.program;
    }
    for (const Purpose purpose : {Purpose::activations, Purpose::scratch}) {
      if (of(plan, purpose) <= device_.largest_buffer()) continue;
      return fail(StatusCode::does_not_fit,
                  "steps of {} tokens need {} of {} in one piece, {} gives at most {}", rows,
                  format_bytes(of(plan, purpose)), purpose_name(purpose), info_.name,
                  format_bytes(device_.largest_buffer()));
    }
    of(plan, Purpose::host) = host_bytes(model_.info(), rows, plan.max_outputs, 0);
    of(plan, Purpose::weights) = request.weights_mapped ? placed_.mapped : placed_.packed;
    const int64_t page = context_cost(request, plan, 1);
    if (request.weights_mapped && (request.spill || plan.total() + page > plan.available)) {
      plan.spilled = true;
      of(plan, Purpose::weights) = std::min(placed_.window, placed_.mapped);
    }
    INFER_CHECK_R(check_weights(plan, page));
    INFER_CHECK_R(choose_context(request, plan));
    return plan;
  }

  /// What a context takes, with the tokens in it.
  int64_t context_cost(const PlanRequest& request, const MemoryPlan& plan, int64_t context) const {
    const int64_t tokens = round_up<int64_t>(context, kPageTokens);
    return kv_bytes(layout_, context, request.sequences, plan.max_rows) +
           host_bytes(model_.info(), 0, 0, tokens) - host_bytes(model_.info(), 0, 0, 0);
  }

  /// The longest context of whole pages that takes at most `bytes`, or one page.
  int64_t longest_context(const PlanRequest& request, const MemoryPlan& plan, int64_t bytes) const {
    int64_t fits = 1;
    int64_t too_many = INT32_MAX / kPageTokens;
    while (fits + 1 < too_many) {
      const int64_t middle = (fits + too_many) / 2;
      (context_cost(request, plan, middle * kPageTokens) <= bytes ? fits : too_many) = middle;
    }
    return fits * kPageTokens;
  }

  /// What may be used in all. What the process has taken already was free before and is planned
  /// for, as far as it is the process's own line.
  int64_t budget(const PlanRequest& request, int64_t reserve, int64_t process) const {
    if (request.memory_limit > 0 && request.pretend) return request.memory_limit - request.others;
    const int64_t free =
        std::max<int64_t>(0, info_.memory_free - reserve) + std::min(info_.memory_held, process);
    return (request.memory_limit > 0 ? std::min(request.memory_limit, free) : free) -
           request.others;
  }

  Status check_weights(const MemoryPlan& plan, int64_t page) const {
    if (plan.total() + page <= plan.available) return {};
    const int64_t weights = plan.bytes[static_cast<size_t>(Purpose::weights)];
    return error(StatusCode::does_not_fit,
                 "the weights do not fit: they need {}{} and {} of work space, {} has {} free",
                 format_bytes(weights), plan.spilled ? " at a time" : "",
                 format_bytes(plan.total() + page - weights), info_.name,
                 format_bytes(plan.available));
  }

  Status choose_context(const PlanRequest& request, MemoryPlan& plan) const {
    const int64_t left = plan.available - plan.total();
    // Slots and positions are 32-bit; beyond that the sums below could wrap as well.
    if (request.context > INT32_MAX) {
      return error(StatusCode::does_not_fit,
                   "a context of {} tokens does not fit: at most {} can be counted",
                   request.context, INT32_MAX);
    }
    plan.context = request.context;
    if (plan.context <= 0) {
      const int64_t wanted = std::min(model_.info().context, kDefaultContext);
      plan.context = std::min(wanted, longest_context(request, plan, left / 2));
      if (plan.max_rows > kFewestRows && request.fewer_rows &&
          plan.context < std::min(wanted, kShortContext)) {
        return error(StatusCode::does_not_fit, "a context of {} tokens does not fit", wanted);
      }
    }
    of(plan, Purpose::kv) = kv_bytes(layout_, plan.context, request.sequences, plan.max_rows);
    const int64_t cost = context_cost(request, plan, plan.context);
    if (cost > left) {
      return error(StatusCode::does_not_fit,
                   "a context of {} tokens does not fit: its cache needs {}, {} is free after the "
                   "weights; {} tokens would fit",
                   plan.context, format_bytes(of(plan, Purpose::kv)), format_bytes(left),
                   longest_context(request, plan, left));
    }
    of(plan, Purpose::host) += cost - of(plan, Purpose::kv);
    for (const KvKind& kind : layout_.kinds) {
      plan.kv_pages.push_back(
          static_cast<int32_t>(kv_pages(kind, plan.context, request.sequences, plan.max_rows)));
    }
    return {};
  }

  const Model& model_;
  const WeightTable& weights_;
  const Device& device_;
  DeviceInfo info_;
  std::pair<DType, DType> types_;
  WeightsPlan placed_;
  KvLayout layout_;
  std::vector<Bucket> buckets_;  ///< ascending rows
};

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

StepMemory plan_step(const Graph& graph, const Device& device, bool observed) {
  const auto nodes = static_cast<int32_t>(graph.nodes().size());
  if (!observed) {
    return {plan_arena(graph, device.phases(graph), device.alignment()),
            device.scratch_bytes({&graph, 0, nodes})};
  }
  std::vector<NodePhase> phases;
  int64_t scratch = 0;
  for (int32_t n = 0; n < nodes; ++n) {
    phases.push_back({n, true});
    scratch = std::max(scratch, device.scratch_bytes({&graph, n, n + 1}));
  }
  return {plan_arena(graph, phases, device.alignment()), scratch};
}

Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type) {
  GraphBuilder builder(infer_outputs, rows, outputs, {model.info().kv_layers, k_type, v_type});
  ModelBuilder model_builder(builder, weights, model.info());
  model.build(model_builder);
  return builder.finish();
}

int64_t default_reserve(int64_t memory_free) {
  constexpr int64_t kLeast = int64_t{256} << 20;
  return std::min(std::max(memory_free / 20, kLeast), memory_free / 2);
}

Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights, const Device& device,
                               const PlanRequest& request) {
  Planner planner(model, weights, device);
  Result<MemoryPlan> plan = planner.plan(request);
  if (plan || plan.error().code() != StatusCode::does_not_fit) return plan;
  return fail(StatusCode::does_not_fit, "{}{}", plan.error().message(), planner.advice(request));
}

}  // namespace infer
