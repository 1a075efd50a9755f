// A model whose header has been read, on a device that is open: what planning and loading need.
#pragma once

#include <memory>
#include <string>

#include "engine/backend/device.h"
#include "engine/model/arch.h"
#include "engine/plan/planner.h"
#include "infer/infer.hpp"

namespace infer {

struct OpenedModel {
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  std::unique_ptr<WeightTable> weights;
  PlanRequest request;
  MemoryPlan plan;
  bool exact = false;  ///< LoadOptions::exact

  /// LoadOptions::draft_model is not looked at. `pretend`: the memory limit may exceed what is
  /// free. `observed`: PlanRequest::observed.
  static Result<OpenedModel> open(const std::string& path, const LoadOptions& options,
                                  bool pretend = false, bool observed = false);
};

/// A model and, where LoadOptions::draft_model names one, the model that drafts for it, planned
/// together: the first one's context takes what the other leaves.
struct OpenedModels {
  OpenedModel main;
  std::unique_ptr<OpenedModel> draft;  ///< on threads of the first one's device, which outlives it

  static Result<OpenedModels> open(const std::string& path, const LoadOptions& options,
                                   bool pretend = false);
  /// Bytes of the model that drafts.
  int64_t draft_bytes() const { return draft == nullptr ? 0 : draft->plan.total(); }
};

}  // namespace infer
