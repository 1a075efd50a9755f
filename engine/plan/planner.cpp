#include "engine/plan/planner.h"

#include <algorithm>
#include <utility>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/plan/host_bytes.h"

namespace infer {
namespace {

/// The default context: long enough for a conversation, at most the context that the model was
/// trained for, and at most half of the memory that the weights leave free.
constexpr int64_t kDefaultContext = 4096;

/// The fewest rows that a step is cut down to, and the least context worth it where none is asked.
constexpr int64_t kFewestRows = 16;
constexpr int64_t kShortContext = 512;

int64_t& of(DevicePlan& plan, Purpose purpose) { return plan.bytes[static_cast<size_t>(purpose)]; }
int64_t of(const DevicePlan& plan, Purpose purpose) {
  return plan.bytes[static_cast<size_t>(purpose)];
}

/// What the programs of one row bucket add. All programs share one arena and one scratch on each
/// device, as large as the largest need.
struct Bucket {
  struct OfDevice {
    int64_t activations = 0;
    int64_t scratch = 0;
  };
  int64_t rows = 0;
  int64_t program = 0;
  std::vector<OfDevice> devices;
};

Bucket measure(const Graph& graph, const Placement& placement, bool observed,
               std::span<Device* const> devices) {
  Bucket bucket{graph.max_rows(), 0, std::vector<Bucket::OfDevice>(devices.size())};
  for (const Roles roles : roles_of_programs(devices)) {
    bucket.program += step_program_bytes(graph);
    const StepMemory memory =
        plan_step(graph, placed_segments(graph, placement, observed, roles), devices);
    for (size_t d = 0; d < devices.size(); ++d) {
      Bucket::OfDevice& need = bucket.devices[d];
      need.activations = std::max(need.activations, memory.devices[d].arena.bytes);
      need.scratch = std::max(need.scratch, memory.devices[d].scratch);
    }
  }
  return bucket;
}

/// Plans of one model on some devices that differ in what is asked of them.
class Planner {
 public:
  Planner(const Model& model, const WeightTable& weights, std::span<Device* const> devices)
      : model_(model), weights_(weights), devices_(devices) {
    for (const Device* device : devices) infos_.push_back(device->info());
  }

  Result<MemoryPlan> plan(const PlanRequest& request) {
    PlanRequest placed = request;
    if (devices_.size() == 1) placed.offload = 0;
    if (placed.offload >= 0) return plan_placed(placed);
    INFER_TRY(placed.offload, most_layers(request));
    Result<MemoryPlan> plan = plan_placed(placed);
    // What was reckoned may be a little less than what is needed.
    for (int64_t fewer = 1; placed.offload > 0 && !plan; fewer *= 2) {
      if (plan.error().code() != StatusCode::does_not_fit) break;
      placed.offload = std::max<int64_t>(0, placed.offload - fewer);
      plan = plan_placed(placed);
    }
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
    PlanRequest fewer = request;
    fewer.offload = -1;
    if (request.offload > 0) {
      if (const Result<MemoryPlan> some = plan(fewer)) {
        text += fmt::format("; with -ngl {} it fits", some->placement.offloaded());
      }
    }
    PlanRequest mapped = request;
    mapped.weights_mapped = mapped.spill = true;
    if (!request.spill && fits(mapped)) {
      text += "; with --spill it runs from the file, slowly";
    }
    PlanRequest larger = request;
    larger.memory_limit = int64_t{1} << 60;
    larger.pretend = true;
    if (const Result<MemoryPlan> free = plan(larger)) {
      text += fmt::format("; it fits with --memory {} if that much memory is free",
                          format_bytes(free->total() + (free->total() >> 8)));
    }
    return text;
  }

 private:
  /// The first plan that fits: with the cache types asked for, then with q8_0 if that is allowed.
  Result<MemoryPlan> plan_placed(const PlanRequest& request) {
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

  /// The graph of the largest step and what it says of units, once for each pair of types.
  Status build_graphs(const PlanRequest& request) {
    const auto types = std::pair(request.k_type, request.v_type);
    if (graph_ && types == types_) return {};
    graph_.reset();
    buckets_.clear();
    types_ = types;
    INFER_TRY_S(Graph graph, build_graph(model_, weights_, request.max_rows,
                                         std::min(request.max_outputs, request.max_rows),
                                         types.first, types.second));
    graph_ = std::make_unique<Graph>(std::move(graph));
    if (devices_.size() == 1) return {};
    const int64_t layers = model_.info().layers;
    refused_ = refusals(*graph_, layers, devices_, weights_.source().weights());
    unit_bytes_.assign(static_cast<size_t>(layers) + 1, 0);
    for (const Node& node : graph_->nodes()) {
      if (node.unit.kind == UnitKind::embedding) continue;
      const bool output = node.unit.kind == UnitKind::output;
      const auto unit = static_cast<size_t>(output ? layers : node.unit.layer);
      for (const ValueId id : node.inputs) {
        if (id == kNoValue) continue;
        const Value& value = graph_->value(graph_->storage(id));
        if (value.kind != Value::Kind::weight) continue;
        unit_bytes_[unit] += devices_.back()->packed_bytes(value.desc);
      }
    }
    return {};
  }

  /// Where everything goes.
  struct Placed {
    Placement placement;
    std::vector<WeightsPlan> weights;  ///< by device
    KvLayout layout;
  };

  Result<Placed> place(const PlanRequest& request) const {
    Placed placed;
    if (devices_.size() > 1) {
      const std::vector<MemoryBudget> budgets = memory_budgets(infos_, asked(request, 0));
      std::vector<int64_t> room(devices_.size(), 0);
      for (const MemoryBudget& budget : budgets) {
        for (const int32_t d : budget.devices) {
          // One with a limit of its own is in a later budget too, and that counts.
          room[static_cast<size_t>(d)] =
              budget.available / static_cast<int64_t>(budget.devices.size());
        }
      }
      placed.placement = place_last(request.offload, unit_bytes_, room, refused_, devices_);
    }
    const std::vector<PlacedSegment> segments =
        placed_segments(*graph_, placed.placement, request.observed);
    for (size_t d = 0; d < devices_.size(); ++d) {
      INFER_TRY(placed.weights.emplace_back(),
                place_weights(segments, static_cast<int32_t>(d), *devices_[d],
                              weights_.source().weights()));
    }
    KvGeometry kv = graph_->kv();
    for (size_t l = 0; l < placed.placement.layers.size(); ++l) {
      kv.layers[l].place = placed.placement.layers[l];
    }
    placed.layout = canonical_kv_layout(kv);
    for (KvKind& kind : placed.layout.kinds) {
      kind.page_bytes =
          round_up(kind.page_bytes, devices_[static_cast<size_t>(kind.place)]->alignment());
    }
    return placed;
  }

  /// The most layers for which the devices after the first have room, together with the cache of
  /// the context asked for, at full rows. An estimate: every device is reckoned with the work space
  /// that it would need for all layers.
  Result<int64_t> most_layers(const PlanRequest& request) {
    INFER_CHECK_R(build_graphs(request));
    const auto nodes = static_cast<int32_t>(graph_->nodes().size());
    std::vector<int64_t> space;
    for (size_t d = 0; d < devices_.size(); ++d) {
      const PlacedSegment all{{graph_.get(), 0, nodes, roles_of_programs(devices_).back()},
                              static_cast<int32_t>(d)};
      const StepMemory::OfDevice own = plan_step(*graph_, {&all, 1}, devices_).devices[d];
      space.push_back(own.arena.bytes + own.scratch);
    }
    const int64_t process =
        model_bytes(weights_.source()) + (request.beside ? 0 : program_bytes(infos_[0]));
    const std::vector<MemoryBudget> budgets = memory_budgets(infos_, asked(request, process));
    const int64_t context = request.context > 0 ? std::min<int64_t>(request.context, INT32_MAX)
                                                : std::min(model_.info().context, kDefaultContext);
    PlanRequest tried = request;
    for (tried.offload = model_.info().layers + 1; tried.offload > 0; --tried.offload) {
      INFER_TRY(const Placed placed, place(tried));
      const auto fits = [&](const MemoryBudget& budget) {
        int64_t need = kv_cost(placed.layout, budget, request, context, request.max_rows);
        for (const int32_t d : budget.devices) {
          const WeightsPlan& weights = placed.weights[static_cast<size_t>(d)];
          if (weights.packed == 0) continue;
          need += space[static_cast<size_t>(d)];
          if (d > 0 || !request.weights_mapped) need += weights.packed;
        }
        if (&budget == budgets.data()) {
          need +=
              process + host_bytes(model_.info(), request.max_rows, request.max_outputs, context);
          need +=
              request.drafter_bytes + context * request.drafter_token_bytes + request.grammar_bytes;
        }
        return need <= budget.available;
      };
      if (std::ranges::all_of(budgets, fits)) break;
    }
    return tried.offload;
  }

  BudgetRequest asked(const PlanRequest& request, int64_t process) const {
    return {request.memory_limit, request.pretend, request.reserve, request.others, process};
  }

  /// Measures the programs of these types and this placement, once.
  Status build(const PlanRequest& request) {
    INFER_CHECK(build_graphs(request));
    if (!buckets_.empty() && request.offload == offload_) return {};
    buckets_.clear();
    offload_ = request.offload;
    INFER_TRY_S(placed_, place(request));
    for (const Node& node : graph_->nodes()) {
      if (placed_.placement.of(node.unit) > 0) continue;  // what is refused was not placed there
      const Status capable = devices_[0]->capability(*graph_, node);
      if (!capable.ok()) {
        return error(capable.code(), "{}: {} cannot run '{}' of layer {}: {}",
                     weights_.source().metadata().source(), infos_[0].name, op_def(node.op()).name,
                     node.unit.layer, capable.message());
      }
    }
    const auto add = [&](int64_t rows) -> Status {
      INFER_TRY_S(const Graph graph,
                  build_graph(model_, weights_, rows, std::min(request.max_outputs, rows),
                              types_.first, types_.second, placed_.placement));
      buckets_.push_back(measure(graph, placed_.placement, request.observed, devices_));
      return {};
    };
    for (int64_t rows = 1; rows < request.max_rows; rows *= 2) INFER_CHECK(add(rows));
    return add(request.max_rows);
  }

  /// `rows` at most in a step: those asked for or a smaller power of two.
  Result<MemoryPlan> plan_rows(const PlanRequest& request, int64_t rows) const {
    MemoryPlan plan;
    plan.placement = placed_.placement;
    plan.kv_layout = placed_.layout;
    plan.max_rows = rows;
    plan.max_outputs = std::min(request.max_outputs, rows);
    plan.k_type = request.k_type;
    plan.v_type = request.v_type;
    plan.devices.resize(devices_.size());
    DevicePlan& host = plan.devices[0];
    of(host, Purpose::process) =
        model_bytes(weights_.source()) + (request.beside ? 0 : program_bytes(infos_[0]));
    plan.budgets = memory_budgets(infos_, asked(request, of(host, Purpose::process)));
    for (const Bucket& bucket : buckets_) {
      if (bucket.rows <= rows) of(host, Purpose::process) += bucket.program;
    }
    of(host, Purpose::host) = host_bytes(model_.info(), rows, plan.max_outputs, 0);
    host.drafters = request.drafter_bytes;
    host.grammars = request.grammar_bytes;
    for (size_t d = 0; d < devices_.size(); ++d) {
      INFER_CHECK_R(plan_device(request, rows, d, plan));
    }
    const std::vector<int64_t> pages = context_costs(request, plan, 1);
    const auto short_of = [&] {
      for (size_t m = 0; m < pages.size(); ++m) {
        if (plan.used(plan.budgets[m]) + pages[m] > plan.budgets[m].available) return m;
      }
      return pages.size();
    };
    if (host.mapped && (request.spill || short_of() == 0)) {
      plan.spilled = true;
      of(host, Purpose::weights) = std::min(placed_.weights[0].window, placed_.weights[0].mapped);
    }
    if (const size_t m = short_of(); m < pages.size()) {
      const MemoryBudget& budget = plan.budgets[m];
      const int64_t weights = plan.used(budget, Purpose::weights);
      return fail(
          StatusCode::does_not_fit,
          "the weights do not fit: they need {}{}, and {} more for the work space; {} has {} free",
          format_bytes(weights), plan.spilled ? " at a time" : "",
          format_bytes(plan.used(budget) + pages[m] - weights), budget.name,
          format_bytes(budget.available));
    }
    INFER_CHECK_R(choose_context(request, plan));
    return plan;
  }

  /// All of a device but its cache.
  Status plan_device(const PlanRequest& request, int64_t rows, size_t d, MemoryPlan& plan) const {
    DevicePlan& own = plan.devices[d];
    const WeightsPlan& weights = placed_.weights[d];
    own.weight_places = weights.places;
    own.weight_buffers = weights.buffers;
    own.mapped = request.weights_mapped && devices_[d]->adopts();
    of(own, Purpose::weights) = own.mapped ? weights.mapped : weights.packed;
    plan.file_weights += weights.mapped;
    for (const Bucket& bucket : buckets_) {
      if (bucket.rows > rows) break;
      const Bucket::OfDevice& need = bucket.devices[d];
      of(own, Purpose::activations) = std::max(of(own, Purpose::activations), need.activations);
      of(own, Purpose::scratch) = std::max(of(own, Purpose::scratch), need.scratch);
    }
    for (const Purpose purpose : {Purpose::activations, Purpose::scratch}) {
      if (of(own, purpose) <= devices_[d]->largest_buffer()) continue;
      return error(StatusCode::does_not_fit,
                   "steps of {} tokens need a buffer of {} for {}, {} allows at most {}", rows,
                   format_bytes(of(own, purpose)), purpose_name(purpose), infos_[d].name,
                   format_bytes(devices_[d]->largest_buffer()));
    }
    return {};
  }

  /// Bytes of the cache that lie in a budget's memory.
  static int64_t kv_cost(const KvLayout& layout, const MemoryBudget& budget,
                         const PlanRequest& request, int64_t context, int64_t rows) {
    int64_t bytes = 0;
    for (const KvKind& kind : layout.kinds) {
      if (std::ranges::find(budget.devices, kind.place) == budget.devices.end()) continue;
      bytes += kind.page_bytes * kv_pages(kind, context, request.sequences, rows);
    }
    return bytes;
  }

  /// What a context takes in each budget's memory, with the tokens in the first.
  std::vector<int64_t> context_costs(const PlanRequest& request, const MemoryPlan& plan,
                                     int64_t context) const {
    std::vector<int64_t> costs;
    for (const MemoryBudget& budget : plan.budgets) {
      costs.push_back(kv_cost(placed_.layout, budget, request, context, plan.max_rows));
    }
    costs[0] += token_bytes(context) + context * request.drafter_token_bytes;
    return costs;
  }

  int64_t token_bytes(int64_t context) const {
    const int64_t tokens = round_up<int64_t>(context, kPageTokens);
    return host_bytes(model_.info(), 0, 0, tokens) - host_bytes(model_.info(), 0, 0, 0);
  }

  /// The longest context of whole pages that takes at most a share of what is left, or one page.
  int64_t longest_context(const PlanRequest& request, const MemoryPlan& plan, int64_t share) const {
    int64_t fits = 1;
    int64_t too_many = INT32_MAX / kPageTokens;
    while (fits + 1 < too_many) {
      const int64_t middle = (fits + too_many) / 2;
      const std::vector<int64_t> costs = context_costs(request, plan, middle * kPageTokens);
      bool all = true;
      for (size_t m = 0; m < costs.size(); ++m) {
        const int64_t left = plan.budgets[m].available - plan.used(plan.budgets[m]);
        all = all && costs[m] <= left / share;
      }
      (all ? fits : too_many) = middle;
    }
    return fits * kPageTokens;
  }

  Status choose_context(const PlanRequest& request, MemoryPlan& plan) const {
    // Slots and positions are 32-bit; beyond that the sums below could wrap as well.
    if (request.context > INT32_MAX) {
      return error(StatusCode::does_not_fit,
                   "a context of {} tokens does not fit: the limit is {} tokens", request.context,
                   INT32_MAX);
    }
    plan.context = request.context;
    if (plan.context <= 0) {
      const int64_t wanted = std::min(model_.info().context, kDefaultContext);
      plan.context = std::min(wanted, longest_context(request, plan, 2));
      if (plan.max_rows > kFewestRows && request.fewer_rows &&
          plan.context < std::min(wanted, kShortContext)) {
        return error(StatusCode::does_not_fit, "a context of {} tokens does not fit", wanted);
      }
    }
    const std::vector<int64_t> costs = context_costs(request, plan, plan.context);
    for (size_t m = 0; m < costs.size(); ++m) {
      const MemoryBudget& budget = plan.budgets[m];
      const int64_t left = budget.available - plan.used(budget);
      if (costs[m] <= left) continue;
      return error(
          StatusCode::does_not_fit,
          "a context of {} tokens does not fit: its cache needs {}, {} is free after the "
          "weights{}; {} tokens would fit",
          plan.context,
          format_bytes(kv_cost(placed_.layout, budget, request, plan.context, plan.max_rows)),
          format_bytes(left), costs.size() > 1 ? " on " + budget.name : "",
          longest_context(request, plan, 1));
    }
    of(plan.devices[0], Purpose::host) += token_bytes(plan.context);
    plan.devices[0].drafters += plan.context * request.drafter_token_bytes;
    for (const KvKind& kind : placed_.layout.kinds) {
      const int64_t pages = kv_pages(kind, plan.context, request.sequences, plan.max_rows);
      plan.kv_pages.push_back(static_cast<int32_t>(pages));
      of(plan.devices[static_cast<size_t>(kind.place)], Purpose::kv) += pages * kind.page_bytes;
    }
    return {};
  }

  const Model& model_;
  const WeightTable& weights_;
  std::span<Device* const> devices_;
  std::vector<DeviceInfo> infos_;
  // Of these types:
  std::pair<DType, DType> types_;
  std::unique_ptr<Graph> graph_;
  std::vector<std::vector<std::string>> refused_;
  std::vector<int64_t> unit_bytes_;  ///< of each layer's weights, and the output's
  // And of so many layers that are not on the first device:
  int64_t offload_ = -1;
  Placed placed_;
  std::vector<Bucket> buckets_;  ///< ascending rows
};

}  // namespace

int64_t DevicePlan::total() const {
  int64_t sum = drafters + grammars;
  for (const int64_t b : bytes) sum += b;
  return sum;
}

int64_t MemoryPlan::bytes(Purpose purpose) const {
  int64_t sum = 0;
  for (const DevicePlan& device : devices) sum += of(device, purpose);
  return sum;
}

int64_t MemoryPlan::total() const {
  int64_t sum = 0;
  for (const DevicePlan& device : devices) sum += device.total();
  return sum;
}

int64_t MemoryPlan::available() const {
  int64_t sum = 0;
  for (const MemoryBudget& budget : budgets) {
    // What is in the first as well is counted there.
    const bool counted =
        &budget != budgets.data() &&
        std::ranges::find(budgets[0].devices, budget.devices[0]) != budgets[0].devices.end();
    if (!counted) sum += budget.available;
  }
  return sum;
}

int64_t MemoryPlan::used(const MemoryBudget& budget) const {
  int64_t sum = 0;
  for (const int32_t device : budget.devices) sum += devices[static_cast<size_t>(device)].total();
  return sum;
}

int64_t MemoryPlan::used(const MemoryBudget& budget, Purpose purpose) const {
  int64_t sum = 0;
  for (const int32_t device : budget.devices) {
    sum += of(devices[static_cast<size_t>(device)], purpose);
  }
  return sum;
}

Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights,
                               std::span<Device* const> devices, const PlanRequest& request) {
  Planner planner(model, weights, devices);
  Result<MemoryPlan> plan = planner.plan(request);
  if (plan || plan.error().code() != StatusCode::does_not_fit) return plan;
  return fail(StatusCode::does_not_fit, "{}{}", plan.error().message(), planner.advice(request));
}

}  // namespace infer
