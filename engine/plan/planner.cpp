#include "engine/plan/planner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/plan/context_plan.h"
#include "engine/plan/host_bytes.h"
#include "engine/plan/model_units.h"

namespace infer {
namespace {

/// What the programs of one row bucket add. All programs share one arena and one scratch on each
/// device, as large as the largest need.
struct Bucket {
  struct OfDevice {
    int64_t activations = 0;
    int64_t scratch = 0;
    int64_t program = 0;  ///< of the device's own memory
  };
  int64_t rows = 0;
  int64_t program = 0;
  std::vector<OfDevice> devices;
};

/// What rows of the model's steps may have: a program each.
std::vector<RowExtras> row_extras(const ModelInfo& info) {
  std::vector<RowExtras> all;
  for (const bool images : {false, true}) {
    for (const bool adapters : {false, true}) {
      if (images && info.takes_images.empty()) continue;
      if (adapters && info.adapter_alphas.empty()) continue;
      all.push_back({images, adapters});
    }
  }
  return all;
}

void measure(const Graph& graph, const Placement& placement, bool observed,
             std::span<Device* const> devices, Bucket& bucket) {
  for (const Roles roles : roles_of_programs(devices, !placement.prompts.empty())) {
    bucket.program += step_program_bytes(graph);
    const std::vector<PlacedSegment> segments = placed_segments(graph, placement, observed, roles);
    const StepMemory memory = plan_step(graph, segments, devices);
    for (const PlacedSegment& placed : segments) {
      const auto d = static_cast<size_t>(placed.device);
      bucket.devices[d].program += devices[d]->program_bytes(placed.segment);
    }
    for (size_t d = 0; d < devices.size(); ++d) {
      Bucket::OfDevice& need = bucket.devices[d];
      need.activations = std::max(need.activations, memory.devices[d].arena.bytes);
      need.scratch = std::max(need.scratch, memory.devices[d].scratch);
    }
  }
}

/// How much the devices after the first get.
struct Offload {
  int64_t layers = 0;        ///< PlacementRequest::layers
  int64_t host_experts = 0;  ///< PlacementRequest::host_experts
  bool operator==(const Offload&) const = default;
};

/// Plans of one model on some devices that differ in what is asked of them.
class Planner {
 public:
  Planner(const Model& model, const WeightTable& weights, std::span<Device* const> devices)
      : model_(model), weights_(weights), devices_(devices) {
    for (const Device* device : devices) infos_.push_back(device->info());
  }

  Result<MemoryPlan> plan(const PlanRequest& request) {
    if (devices_.size() == 1) return plan_placed(request, {});
    INFER_CHECK_R(read_units(request));
    const std::vector<Offload> choices = offloads(request);
    INFER_TRY(size_t choice, first_that_fits(request, choices));
    Result<MemoryPlan> plan = plan_placed(request, choices[choice]);
    // What was estimated may be a little less than what is needed.
    for (size_t fewer = 1; choice + 1 < choices.size() && !plan; fewer *= 2) {
      if (plan.error().code() != StatusCode::does_not_fit) break;
      choice = std::min(choice + fewer, choices.size() - 1);
      plan = plan_placed(request, choices[choice]);
    }
    return plan;
  }

 private:
  /// What a request leaves open, most on the devices after the first to least. Before a layer stays
  /// on the host its experts do, and those of all other layers.
  std::vector<Offload> offloads(const PlanRequest& request) const {
    const int64_t given = std::max<int64_t>(request.host_experts, 0);
    if (request.offload >= 0) return {{request.offload, given}};
    const int64_t layers = model_.info().layers;
    std::vector<Offload> choices{{layers + 1, given}};
    int64_t kept = given;
    if (request.host_experts < 0 && units_->has_experts()) {
      while (kept < layers) choices.push_back({layers + 1, ++kept});
    }
    for (int64_t n = layers; n >= 0; --n) choices.push_back({n, kept});
    return choices;
  }

  /// The first plan that fits: with the cache types asked for, then with q8_0 if that is allowed.
  Result<MemoryPlan> plan_placed(const PlanRequest& request, const Offload& offload) {
    Result<MemoryPlan> plan = plan_types(request, offload);
    const bool other = request.k_auto || request.v_auto;
    if (plan || !other || plan.error().code() != StatusCode::does_not_fit) return plan;
    PlanRequest small = request;
    if (request.k_auto) small.k_type = DType::q8_0;
    if (request.v_auto) small.v_type = DType::q8_0;
    Result<MemoryPlan> second = plan_types(small, offload);
    if (second || second.error().code() == StatusCode::does_not_fit) return second;
    return plan;
  }

  Result<MemoryPlan> plan_types(const PlanRequest& request, const Offload& offload) {
    INFER_CHECK_R(build(request, offload));
    for (int64_t rows = request.max_rows;;) {
      Result<MemoryPlan> plan = plan_rows(request, rows);
      const int64_t fewer = row_bucket(rows, INT64_MAX) / 2;  // the next smaller power of two
      if (plan || !request.fewer_rows || fewer < kFewestRows) return plan;
      if (plan.error().code() != StatusCode::does_not_fit) return plan;
      rows = fewer;
    }
  }

  /// Reads the model's units, once for each pair of types.
  Status read_units(const PlanRequest& request) {
    const auto types = std::pair(request.k_type, request.v_type);
    if (units_ && types == types_) return {};
    units_.reset();
    buckets_.clear();
    types_ = types;
    INFER_TRY_S(units_, ModelUnits::create(
                            model_, weights_, devices_,
                            {request.max_rows, std::min(request.max_outputs, request.max_rows),
                             types.first, types.second}));
    return {};
  }

  /// Where everything goes.
  struct Placed {
    Placement placement;
    std::vector<WeightsPlan> weights;  ///< by device
    std::vector<StreamPlan> streams;   ///< by device
    KvLayout layout;
  };

  Result<Placed> place(const PlanRequest& request, const Offload& offload) const {
    Placed placed;
    const std::span<const Weight> weights = weights_.source().weights();
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
      PlacementRequest wanted{offload.layers, offload.host_experts, {}, units_->cache_of()};
      INFER_TRY(wanted.fixed, units_->fixed_units(request.weight_devices, weights, infos_));
      placed.placement = place_units(wanted, units_->bytes(), room, units_->refused(), devices_);
      INFER_CHECK_R(check_shared_cache(placed.placement));
      plan_streams(request, room, placed);
    }
    placed.streams.resize(devices_.size());
    std::vector<PlacedSegment> segments =
        placed_segments(units_->graph(), placed.placement, request.observed);
    if (!placed.placement.prompts.empty()) {
      const auto further = placed_segments(units_->graph(), placed.placement, false, Roles::prompt);
      segments.insert(segments.end(), further.begin(), further.end());
    }
    for (size_t d = 0; d < devices_.size(); ++d) {
      INFER_TRY(placed.weights.emplace_back(),
                place_weights(segments, static_cast<int32_t>(d), *devices_[d], weights,
                              lent(request, d), placed.streams[d].streamed, mapped(request, d)));
    }
    if (!model_.info().shares_cache) {
      placed.layout = canonical_kv_layout(kv_geometry(units_->graph().kv(), placed.placement));
    }
    for (KvKind& kind : placed.layout.kinds) {
      kind.page_bytes =
          round_up(kind.page_bytes, devices_[static_cast<size_t>(kind.place)]->alignment());
    }
    return placed;
  }

  /// Not where a step would be too short for it to pay, or weights on their way would take more
  /// than a quarter of a device's memory, or than it has in one piece.
  void plan_streams(const PlanRequest& request, std::span<const int64_t> room,
                    Placed& placed) const {
    const bool may = request.streamed && !request.spill && !request.observed && !request.beside &&
                     !model_.info().embeds && !model_.info().shares_cache;
    if (!may) return;
    placed.streams =
        infer::plan_streams(units_->graph(), devices_, units_->refused(), placed.placement);
    bool pays = least_streamed_tokens(units_->graph(), placed.placement) <= request.max_rows;
    for (size_t d = 1; d < devices_.size(); ++d) {
      const int64_t bytes = placed.streams[d].bytes();
      pays = pays && bytes <= room[d] / 4 && bytes <= devices_[d]->largest_buffer();
    }
    if (pays) return;
    placed.streams.clear();
    placed.placement.prompts.clear();
  }

  /// Attention that reads another model's cache has to be where that is.
  Status check_shared_cache(const Placement& placement) const {
    const std::vector<int32_t>& devices = units_->shared_cache();
    for (size_t layer = 0; layer < devices.size(); ++layer) {
      if (devices[layer] < 0 || placement.layers[layer].attention == devices[layer]) continue;
      return error(StatusCode::unsupported, "{}: {} keeps the cache, and cannot run layer {}",
                   weights_.source().metadata().source(),
                   infos_[static_cast<size_t>(devices[layer])].name, layer);
    }
    return {};
  }

  /// The first choice for which all devices have room, together with the cache of the context asked
  /// for, at full rows; else the last. An estimate: every device is reckoned with the work space
  /// that it would need for all layers.
  Result<size_t> first_that_fits(const PlanRequest& request, std::span<const Offload> choices) {
    if (choices.size() == 1) return 0;
    const Graph& graph = units_->graph();
    const auto nodes = static_cast<int32_t>(graph.nodes().size());
    std::vector<int64_t> space;
    for (size_t d = 0; d < devices_.size(); ++d) {
      const PlacedSegment all{{&graph, 0, nodes, roles_of_programs(devices_).back()},
                              static_cast<int32_t>(d)};
      const StepMemory::OfDevice own = plan_step(graph, {&all, 1}, devices_).devices[d];
      space.push_back(own.arena.bytes + own.scratch);
    }
    const int64_t process = process_bytes(request);
    const std::vector<MemoryBudget> budgets = memory_budgets(infos_, asked(request, process));
    const int64_t context = wanted_context(model_.info(), request);
    for (size_t choice = 0; choice + 1 < choices.size(); ++choice) {
      INFER_TRY(const Placed placed, place(request, choices[choice]));
      const ContextCosts costs(model_.info(), placed.layout, request, request.max_rows);
      const auto fits = [&](const MemoryBudget& budget) {
        int64_t need = costs.cache(budget, context);
        for (const int32_t d : budget.devices) {
          const WeightsPlan& weights = placed.weights[static_cast<size_t>(d)];
          if (weights.packed + weights.mapped == 0) continue;
          need += space[static_cast<size_t>(d)] + placed.streams[static_cast<size_t>(d)].bytes();
          need += weights.packed;
        }
        if (&budget == budgets.data()) {
          need +=
              process + host_bytes(model_.info(), request.max_rows, request.max_outputs, context);
          need += request.drafters.bytes + context * request.drafters.token_bytes;
          need += request.grammar_bytes + request.image_bytes;
        }
        return need <= budget.available;
      };
      if (std::ranges::all_of(budgets, fits)) return choice;
    }
    return choices.size() - 1;
  }

  static std::span<const WeightPlace> lent(const PlanRequest& request, size_t d) {
    if (request.lender == nullptr) return {};
    return request.lender->devices[d].weight_places;
  }

  /// By weight: whether it stays in the mapped file.
  std::vector<bool> mapped(const PlanRequest& request, size_t d) const {
    if (!request.weights_mapped || !devices_[d]->adopts()) return {};
    std::vector<bool> all;
    for (const Weight& weight : weights_.source().weights()) {
      all.push_back(weights_.source().can_map(weight.place));
    }
    return all;
  }

  /// Of the process, beside its programs.
  int64_t process_bytes(const PlanRequest& request) const {
    const int64_t own = request.lender == nullptr ? model_bytes(weights_.source()) : 0;
    return own + (request.beside ? 0 : program_bytes(infos_[0]));
  }

  BudgetRequest asked(const PlanRequest& request, int64_t process) const {
    return {request.memory_limit, request.pretend, request.reserve, request.others, process};
  }

  /// Measures the programs of these types and this placement, once.
  Status build(const PlanRequest& request, const Offload& offload) {
    INFER_CHECK(read_units(request));
    if (!buckets_.empty() && offload == offload_) return {};
    buckets_.clear();
    offload_ = offload;
    INFER_TRY_S(placed_, place(request, offload));
    const Graph& largest = units_->graph();
    for (const Node& node : largest.nodes()) {
      if (placed_.placement.of(node.unit) > 0) continue;  // what is refused was not placed there
      const Status capable = devices_[0]->capability(largest, node);
      if (!capable.ok()) {
        return error(capable.code(), "{}: {} cannot run '{}' of layer {}: {}",
                     weights_.source().metadata().source(), infos_[0].name, op_def(node.op()).name,
                     node.unit.layer, capable.message());
      }
    }
    const auto add = [&](int64_t rows) -> Status {
      Bucket bucket{rows, 0, std::vector<Bucket::OfDevice>(devices_.size())};
      for (const RowExtras extras : row_extras(model_.info())) {
        INFER_TRY_S(const Graph graph,
                    build_graph(model_, weights_, rows, std::min(request.max_outputs, rows),
                                types_.first, types_.second, placed_.placement, extras));
        measure(graph, placed_.placement, request.observed, devices_, bucket);
      }
      buckets_.push_back(std::move(bucket));
      return {};
    };
    for (int64_t rows = 1; rows < request.max_rows; rows *= 2) INFER_CHECK(add(rows));
    return add(request.max_rows);
  }

  /// `rows` at most in a step: those asked for or a smaller power of two.
  Result<MemoryPlan> plan_rows(const PlanRequest& request, int64_t rows) const {
    MemoryPlan plan;
    plan.placement = placed_.placement;
    plan.least_streamed = least_streamed_tokens(units_->graph(), plan.placement);
    plan.kv_layout = placed_.layout;
    plan.max_rows = rows;
    plan.max_outputs = std::min(request.max_outputs, rows);
    plan.k_type = request.k_type;
    plan.v_type = request.v_type;
    plan.devices.resize(devices_.size());
    DevicePlan& host = plan.devices[0];
    host.of(Purpose::process) = process_bytes(request);
    plan.budgets = memory_budgets(infos_, asked(request, host.of(Purpose::process)));
    for (const Bucket& bucket : buckets_) {
      if (bucket.rows <= rows) host.of(Purpose::process) += bucket.program;
    }
    host.of(Purpose::host) =
        host_bytes(model_.info(), rows, plan.max_outputs, 0) + request.image_bytes;
    host.drafters = request.drafters.bytes;
    host.grammars = request.grammar_bytes;
    for (size_t d = 0; d < devices_.size(); ++d) {
      INFER_CHECK_R(plan_device(rows, d, plan));
    }
    const std::vector<int64_t> pages =
        ContextCosts(model_.info(), plan.kv_layout, request, rows).all(plan.budgets, 1);
    const auto short_of = [&] {
      for (size_t m = 0; m < pages.size(); ++m) {
        if (plan.used(plan.budgets[m]) + pages[m] > plan.budgets[m].available) return m;
      }
      return pages.size();
    };
    if (host.mapped > 0 && !request.in_memory && (request.spill || short_of() == 0)) {
      plan.spilled = true;
      const int64_t resident = std::min(placed_.weights[0].window, host.mapped);
      host.of(Purpose::weights) += resident - host.mapped;
      host.mapped = resident;
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
    INFER_CHECK_R(choose_context(model_.info(), request, plan));
    // Now that the size of the cache is known, so is what the buffers are rounded up to.
    for (size_t d = 0; d < devices_.size(); ++d) {
      DevicePlan& own = plan.devices[d];
      own.of(Purpose::process) -= rounding_with_cache(own, d);
      std::vector<int64_t> buffers = buffers_of(own);
      buffers.push_back(own.of(Purpose::kv));
      own.of(Purpose::process) += rounding(buffers, d);
    }
    return plan;
  }

  /// What is allocated of a device's own memory but the cache.
  static std::vector<int64_t> buffers_of(const DevicePlan& plan) {
    std::vector<int64_t> buffers = plan.weight_buffers;
    for (const Purpose purpose : {Purpose::activations, Purpose::scratch}) {
      buffers.push_back(plan.of(purpose));
    }
    buffers.push_back(plan.programs);
    buffers.push_back(plan.stream.bytes());
    return buffers;
  }
  /// What these are rounded up to, beyond their bytes.
  int64_t rounding(std::vector<int64_t> buffers, size_t d) const {
    std::erase(buffers, 0);
    return devices_[d]->taken_by(buffers) -
           std::accumulate(buffers.begin(), buffers.end(), int64_t{0});
  }
  /// The same of all buffers and a cache of any size: at most so much.
  int64_t rounding_with_cache(const DevicePlan& plan, size_t d) const {
    const bool cached = std::ranges::any_of(placed_.layout.kinds, [d](const KvKind& kind) {
      return static_cast<size_t>(kind.place) == d;
    });
    return rounding(buffers_of(plan), d) + (cached ? rounding({1}, d) : 0);
  }

  /// All of a device but its cache.
  Status plan_device(int64_t rows, size_t d, MemoryPlan& plan) const {
    DevicePlan& own = plan.devices[d];
    const WeightsPlan& weights = placed_.weights[d];
    own.weight_places = weights.places;
    own.weight_buffers = weights.buffers;
    own.mapped = weights.mapped;
    own.stream = placed_.streams[d];
    own.of(Purpose::weights) = weights.packed + weights.mapped + own.stream.bytes();
    plan.file_weights += weights.mapped;
    for (const Bucket& bucket : buckets_) {
      if (bucket.rows > rows) break;
      const Bucket::OfDevice& need = bucket.devices[d];
      own.of(Purpose::activations) = std::max(own.of(Purpose::activations), need.activations);
      own.of(Purpose::scratch) = std::max(own.of(Purpose::scratch), need.scratch);
      own.programs += need.program;
    }
    own.of(Purpose::process) += own.programs + rounding_with_cache(own, d);
    for (const Purpose purpose : {Purpose::activations, Purpose::scratch}) {
      if (own.of(purpose) <= devices_[d]->largest_buffer()) continue;
      return error(StatusCode::does_not_fit,
                   "steps of {} tokens need a buffer of {} for {}, {} allows at most {}", rows,
                   format_bytes(own.of(purpose)), purpose_name(purpose), infos_[d].name,
                   format_bytes(devices_[d]->largest_buffer()));
    }
    return {};
  }

  const Model& model_;
  const WeightTable& weights_;
  std::span<Device* const> devices_;
  std::vector<DeviceInfo> infos_;
  // For these types:
  std::pair<DType, DType> types_;
  std::optional<ModelUnits> units_;
  // And for this placement:
  Offload offload_;
  Placed placed_;
  std::vector<Bucket> buckets_;  ///< ascending rows
};

}  // namespace

Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights,
                               std::span<Device* const> devices, const PlanRequest& request) {
  return Planner(model, weights, devices).plan(request);
}

}  // namespace infer
