// Plans memory before any is used. These are pure functions: they return bytes and allocate nothing
// on a device. engine/exec and engine/kv later allocate exactly these numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backend/device.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"
#include "engine/plan/arena.h"
#include "engine/plan/budget.h"
#include "engine/plan/format_bytes.h"
#include "engine/plan/placement.h"
#include "engine/plan/stream_plan.h"
#include "engine/plan/weights_plan.h"

namespace infer {

struct MemoryPlan;

/// What drafters keep of texts, in bytes of the host's memory. The model that drafts is not part of
/// it.
struct DrafterMemory {
  int64_t bytes = 0;        ///< however long the context is
  int64_t token_bytes = 0;  ///< for each token of the context
  int64_t grown_bytes = 0;  ///< for each token that a sequence has beyond it, where the cache grows
};

/// The sizes asked for, and the limits of memory.
struct PlanRequest {
  int64_t context = 0;  ///< tokens; 0: the planner chooses
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  bool k_auto = false;          ///< keys may be q8_0 if the plan does not fit with k_type
  bool v_auto = false;          ///< likewise values
  int64_t max_rows = 512;       ///< tokens in one step
  bool fewer_rows = false;      ///< steps may be shorter if max_rows does not fit
  int64_t max_outputs = 16;     ///< rows of one step that return logits
  int64_t sequences = 4;        ///< at the same time; each has its own sliding windows
  int64_t memory_limit = 0;     ///< bytes in each budget; 0: its free memory minus the reserve
  bool pretend = false;         ///< memory_limit may exceed the free memory
  int64_t reserve = -1;         ///< bytes of free memory left unused; −1: default_reserve()
  bool weights_mapped = false;  ///< weights stay in the mapped file, where they can
  bool in_memory = false;       ///< the mapped weights are in no file: they never leave memory
  bool spill = false;           ///< each layer's mapped weights leave memory after their use
  std::vector<int64_t> others;  ///< by device: bytes already planned for other models
  /// Number of layers not on the first device: the last ones. The output counts as one more layer.
  /// −1: as many as fit. Unused with one device.
  int64_t offload = -1;
  /// Of layers that are not on the first device, the experts of the first so many layers of the
  /// model stay on it. −1: as few as let the layers of `offload` = −1 fit; none if `offload` is
  /// given.
  int64_t host_experts = -1;
  /// By index of the source's weights: the device for the unit that uses the weight, whatever the
  /// numbers above say; −1: as they say. Empty: none.
  std::vector<int32_t> weight_devices;
  bool beside = false;  ///< another model's plan already counts the process itself
  /// The plan of a model on the same devices whose weights are the first ones of this one's source,
  /// or all: those that it has on a device are not placed there again (Executor::create: `lender`).
  /// Null: none. Only for plan_memory().
  const MemoryPlan* lender = nullptr;
  DrafterMemory drafters;
  // Further host memory, in bytes:
  int64_t grammar_bytes = 0;  ///< most that grammars may take
  int64_t image_bytes = 0;    ///< of images that have been read
  /// Pages of recurrent states beside those that sequences need: for the states after rows of steps
  /// with drafts (Device::keeps_row_states).
  int64_t draft_states = 0;
  /// Compiles each node into a program of its own, as Executor::observe() needs.
  bool observed = false;
  /// Parts of the host's may be computed by another device for prompts (stream_plan.h).
  bool streamed = true;
};

/// The plan of one device.
struct DevicePlan {
  int64_t bytes[kPurposeCount] = {};       ///< by Purpose
  int64_t drafters = 0;                    ///< bytes of the drafters, without a draft model
  int64_t grammars = 0;                    ///< bytes
  std::vector<WeightPlace> weight_places;  ///< by index of the source's weights
  /// Bytes of each buffer of weights. There are as few as Device::largest_buffer() allows.
  std::vector<int64_t> weight_buffers;
  StreamPlan stream;     ///< its bytes are part of Purpose::weights
  int64_t programs = 0;  ///< bytes of the device's own memory (part of Purpose::process)
  /// Bytes in memory of weights that stay in the mapped file (Device::adopt), a part of
  /// Purpose::weights.
  int64_t mapped = 0;

  int64_t total() const;  ///< bytes of all purposes, drafters and grammars
  int64_t& of(Purpose purpose) { return bytes[static_cast<size_t>(purpose)]; }
  int64_t of(Purpose purpose) const { return bytes[static_cast<size_t>(purpose)]; }
};

struct MemoryPlan {
  int64_t context = 0;            ///< tokens that the cache has room for
  int64_t longest = 0;            ///< tokens that one sequence may have: more, if the cache grows
  KvLayout kv_layout;             ///< kinds by device
  std::vector<int32_t> kv_pages;  ///< by kind
  Placement placement;
  std::vector<DevicePlan> devices;    ///< the host's processor first, if there are several
  std::vector<MemoryBudget> budgets;  ///< that of the first device first

  // The planner's choices:
  int64_t max_rows = 0;
  int64_t max_outputs = 0;
  /// Prompts of so many tokens or more are computed as Placement::prompts says. 0: none.
  int64_t least_streamed = 0;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  bool spilled = false;      ///< mapped weights count as the layers resident at once, not all
  int64_t file_weights = 0;  ///< bytes of weights that stay in the mapped file

  // Sums over devices.
  int64_t bytes(Purpose purpose) const;
  int64_t total() const;
  int64_t drafters() const { return devices[0].drafters; }
  int64_t grammars() const { return devices[0].grammars; }
  int64_t available() const;  ///< of all budgets; memory in two budgets counts once

  /// Bytes planned for the devices of a budget: all of them, or those of one purpose.
  int64_t used(const MemoryBudget& budget) const;
  int64_t used(const MemoryBudget& budget, Purpose purpose) const;
};

/// Memory of one step's results and work space.
struct StepMemory {
  struct OfDevice {
    ArenaPlan arena;
    int64_t scratch = 0;  ///< bytes
  };
  std::vector<OfDevice> devices;
};
/// Plans the memory of one step whose nodes have been placed.
StepMemory plan_step(const Graph& graph, std::span<const PlacedSegment> segments,
                     std::span<Device* const> devices);

/// The same cache with each layer's part on the device of its attention.
KvGeometry kv_geometry(KvGeometry kv, const Placement& placement);

/// Builds the graph of one step: `rows` tokens in, logits for `outputs` of these rows out. The
/// cache of a layer is on the device of the layer, unless it is another model's
/// (ModelInfo::shares_cache). Errors: bad_file, unsupported.
Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type,
                          const Placement& placement = {}, RowExtras extras = {});

/// Plans the memory of a model on one or several devices. Of several, the first is the host's
/// processor. If PlanRequest::offload is −1, the other devices get as many of the last layers as
/// fit, together with the cache of these layers. Before a layer stays on the host, its experts and
/// those of all other layers do.
///
/// If the plan does not fit, the planner first tries shorter steps (if fewer_rows; no result
/// depends on the length of a step), then q8_0 for the cache (if k_auto or v_auto).
///
/// Errors: bad_file if the model cannot be built; unsupported, with the reason, if the first device
/// cannot run a node, or if no device can run attention where another model's cache is;
/// does_not_fit, which says what is too large, the weights or the context;
/// invalid_argument for weight_devices that divide a unit.
Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights,
                               std::span<Device* const> devices, const PlanRequest& request);

/// Rows of the program that serves a step of `rows` rows: the next power of two, at most max_rows.
int64_t row_bucket(int64_t rows, int64_t max_rows);

}  // namespace infer
