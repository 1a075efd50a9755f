// A model whose header has been read, on devices that are open: what planning and loading need.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/backend/device.h"
#include "engine/model/adapters.h"
#include "engine/model/arch.h"
#include "engine/model/draft_source.h"
#include "engine/plan/planner.h"
#include "engine/vision/image_reader.h"
#include "infer/infer.hpp"

namespace infer {

/// Opens a device by its name: open_device(), or what a test opens in its place.
using OpenDevice = std::function<Result<std::unique_ptr<Device>>(const std::string& name,
                                                                 const DeviceOptions& options)>;

struct OpenedModel {
  std::unique_ptr<WeightSource> source;
  /// Those named by LoadOptions::device. Where one of them is not the CPU, the CPU is the first.
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Model> model;
  std::unique_ptr<WeightTable> weights;
  PlanRequest request;
  MemoryPlan plan;
  bool exact = false;                      ///< LoadOptions::exact
  const AdaptedSource* adapted = nullptr;  ///< `source`, if it has adapters
  std::vector<float> adapter_scales;       ///< by adapter: LoadOptions::adapters
  /// A head that drafts, on the same devices: a layer of the file, with weights of `weights`; or of
  /// a file of its own.
  struct Head {
    std::shared_ptr<DraftSource> source;   ///< null: the model's file
    std::shared_ptr<WeightTable> weights;  ///< likewise
    std::unique_ptr<Model> model;
    PlanRequest request;
    MemoryPlan plan;
  };
  /// In the order in which they draft; empty: nothing of this kind is to. Behind a head with
  /// ModelInfo::block its Model::transitions().
  std::vector<Head> heads;
  std::shared_ptr<OpenedTower> tower;  ///< that of LoadOptions::vision, on the same devices

  /// The model's own weights.
  const WeightSource& base() const { return adapted == nullptr ? *source : adapted->base(); }
  const WeightTable& weights_of(const Head& head) const {
    return head.weights ? *head.weights : *weights;
  }
  /// Whether the head is of a file of its own.
  bool has_head_file() const { return !heads.empty() && heads.front().source != nullptr; }
  /// Bytes of the heads and of the tower by purpose, and of all.
  int64_t bytes_beside(Purpose purpose) const;
  int64_t bytes_beside() const;
  std::vector<Device*> device_list() const;
  /// The first that was named.
  Device& main_device() const { return *devices[devices.size() > 1 ? 1 : 0]; }
  /// Bytes of the plan by device.
  std::vector<int64_t> planned_bytes() const;
  /// Bytes planned for a purpose on a device, with those of the heads and of the tower.
  int64_t planned(size_t device, Purpose purpose) const;

  /// LoadOptions::draft_model is not looked at. `pretend`: the memory limit may exceed what is
  /// free. `observed`: PlanRequest::observed.
  static Result<OpenedModel> open(const std::string& path, const LoadOptions& options,
                                  bool pretend = false, bool observed = false);
};

/// A model and, where LoadOptions::draft_model names one, the model that drafts for it, planned
/// together: the first one's context takes what the other leaves.
struct OpenedModels {
  OpenedModel main;
  std::unique_ptr<OpenedModel> draft;  ///< on threads of the first one's CPU, which outlives it

  static Result<OpenedModels> open(const std::string& path, const LoadOptions& options,
                                   bool pretend = false, const OpenDevice& open = open_device);
  /// Bytes of the model that drafts.
  int64_t draft_bytes() const { return draft == nullptr ? 0 : draft->plan.total(); }
};

}  // namespace infer
