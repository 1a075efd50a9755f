// What the planner must know of a model's units: read off the graph of the largest step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/model/builder.h"
#include "engine/plan/placement.h"

namespace infer {

/// The graph of a model's largest step, for a pair of cache types. By unit (unit_number): bytes of
/// weights, and which device refuses it.
class ModelUnits {
 public:
  /// Sizes of the largest step.
  struct Step {
    int64_t rows = 0;
    int64_t outputs = 0;
    DType k_type = DType::f16;
    DType v_type = DType::f16;
  };
  /// Errors: those of build_graph().
  static Result<ModelUnits> create(const Model& model, const WeightTable& weights,
                                   std::span<Device* const> devices, const Step& step);

  const Graph& graph() const { return *graph_; }
  bool has_experts() const;
  /// Empty with one device. Bytes are those of the last device's layout.
  std::span<const int64_t> bytes() const { return bytes_; }
  const Refusals& refused() const { return refused_; }
  /// PlacementRequest::cache_of.
  const std::vector<int32_t>& cache_of() const { return cache_of_; }
  /// By layer: the device that keeps what its attention reads of another model's cache; −1: it
  /// reads none. Empty with one device or a cache of its own.
  const std::vector<int32_t>& shared_cache() const { return shared_cache_; }

  /// PlacementRequest::fixed from the devices of single weights (PlanRequest::weight_devices) and
  /// of shared caches. The embedding and the output may use one weight: it then counts for the
  /// embedding alone. invalid_argument if two weights of a unit are for different devices; names
  /// both.
  Result<std::vector<int32_t>> fixed_units(std::span<const int32_t> weight_devices,
                                           std::span<const Weight> weights,
                                           std::span<const DeviceInfo> devices) const;

 private:
  std::unique_ptr<Graph> graph_;
  int64_t layers_ = 0;
  std::vector<int64_t> bytes_;
  Refusals refused_;
  std::vector<int32_t> cache_of_;
  std::vector<int32_t> shared_cache_;
};

}  // namespace infer
