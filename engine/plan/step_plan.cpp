// The graph of a step and what devices need for its results.
#include <algorithm>
#include <bit>

#include "engine/ops/op.h"
#include "engine/plan/planner.h"

namespace infer {

int64_t row_bucket(int64_t rows, int64_t max_rows) {
  return std::min(max_rows, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
}

StepMemory plan_step(const Graph& graph, std::span<const PlacedSegment> segments,
                     std::span<Device* const> devices) {
  StepMemory memory;
  memory.devices.resize(devices.size());
  std::vector<NodePhase> phases;
  std::vector<int32_t> device_of;
  std::vector<int32_t> begins;
  int32_t next = 0;  // phase
  for (const PlacedSegment& placed : segments) {
    const Device& device = *devices[static_cast<size_t>(placed.device)];
    StepMemory::OfDevice& own = memory.devices[static_cast<size_t>(placed.device)];
    own.scratch = std::max(own.scratch, device.scratch_bytes(placed.segment));
    const int32_t begin = next;
    for (NodePhase phase : device.phases(placed.segment)) {
      phase.phase += begin;
      next = phase.phase + 1;
      phases.push_back(phase);
      device_of.push_back(placed.device);
      begins.push_back(begin);
    }
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    memory.devices[d].arena = plan_arena(graph, phases, devices[d]->alignment(),
                                         {static_cast<int32_t>(d), device_of, begins});
  }
  return memory;
}

KvGeometry kv_geometry(KvGeometry kv, const Placement& placement) {
  for (KvLayerShape& shape : kv.layers) {
    const auto layer = static_cast<size_t>(shape.layer);
    if (layer < placement.layers.size()) shape.place = placement.layers[layer].attention;
  }
  return kv;
}

Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type, const Placement& placement,
                          RowExtras extras) {
  // Vectors of texts need no cache.
  std::vector<KvLayerShape> layers;
  if (!model.info().embeds) layers = model.info().kv_layers;
  KvGeometry kv{std::move(layers), k_type, v_type};
  if (!model.info().shares_cache) kv = kv_geometry(std::move(kv), placement);
  GraphBuilder builder(infer_outputs, rows, outputs, std::move(kv));
  ModelBuilder model_builder(builder, weights, model.info(), extras);
  model.build(model_builder);
  return builder.finish();
}

}  // namespace infer
