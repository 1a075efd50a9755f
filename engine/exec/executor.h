// Runs steps of one model: weights, arenas and programs on the devices that its layers are placed
// on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/exec/step_recorder.h"
#include "engine/exec/work.h"
#include "engine/graph/tensor_ref.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"
#include "engine/plan/planner.h"

namespace infer {

/// The rows of one step. All vectors but output_rows have one entry a row.
struct StepBatch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;  ///< for RoPE
  std::vector<int32_t> slots;      ///< place in the sequence's pages
  std::vector<int32_t> sequences;  ///< row of the block tables
  std::vector<int32_t> output_rows;
  std::span<const KvPages> pages;  ///< by kind
  int64_t generated = 0;           ///< rows that the model made itself: the first ones

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
  StepShape shape() const;
  void clear();
};

/// A stretch of a step on one device.
struct CompiledSegment {
  /// A value that another device made and this one reads.
  struct Arrival {
    ValueId value;
    int32_t from;  ///< device
  };
  std::unique_ptr<Program> program;
  int32_t device = 0;
  int32_t begin = 0;  ///< first node
  std::vector<Arrival> arrivals;
};

/// A graph, and the programs that compute it one after another.
struct CompiledStep {
  std::unique_ptr<Graph> graph;
  std::vector<CompiledSegment> segments;       ///< one for each node, where nodes are observed
  std::vector<std::vector<MemoryRef>> memory;  ///< by device and ValueId
  int32_t output_device = 0;                   ///< that made the logits
  std::vector<ValueId> inputs;                 ///< those that the host gives at every run
  std::vector<const std::byte*> pointers;      ///< to them, by ValueId
};

/// A product of activations with a weight, before it is computed.
struct ObservedProduct {
  OpId op;                ///< Matmul, MoeMatmul or HeadMatmul
  int32_t weight;         ///< index of the source's weights
  TensorRef activations;  ///< f32 [k, d1, rows], as the operation takes them
  TensorRef experts;      ///< of MoeMatmul: i32 [used, 1, rows]; else without data
};
/// May fail, which ends the step.
using ProductObserver = std::function<Status(const ObservedProduct&)>;

/// Keeps one program per row bucket and roles; on a miss builds the graph and compiles it.
class ProgramCache {
 public:
  using Make = std::function<Result<CompiledStep>(int64_t rows, Roles roles)>;
  explicit ProgramCache(Make make) : make_(std::move(make)) {}
  Result<CompiledStep*> get(int64_t rows, Roles roles);
  size_t size() const { return programs_.size(); }
  /// Drops all programs but not their graphs. From then on get() fails with StatusCode::device.
  void close();

 private:
  using Programs = std::map<std::pair<int64_t, Roles>, CompiledStep>;
  Make make_;
  Programs programs_;
  Programs closed_;  ///< without their segments
};

/// One thread.
class Executor {
 public:
  /// Allocates what the plan of these devices says and loads the weights. `progress` gets 0 to 1
  /// and may cancel.
  static Result<std::unique_ptr<Executor>> create(const Model& model, const WeightTable& weights,
                                                  std::span<Device* const> devices,
                                                  const PlanRequest& request,
                                                  const MemoryPlan& plan,
                                                  const std::function<bool(double)>& progress);

  /// Computes a step of 1 to max_rows rows. `logits` gets [vocabulary] for every output row, in
  /// their order; it stays valid until the next run. `recorder`, if any, is in a step.
  Result<std::span<const float>> run(const StepBatch& batch, StepRecorder* recorder = nullptr);

  /// Tells of every product of every step from now on, in the order of the graph. The request was
  /// planned with PlanRequest::observed; without it steps know nothing of observers, which cost
  /// nothing.
  void observe(ProductObserver observer) { observer_ = std::move(observer); }

  /// Gives back all that it has on devices. Graphs stay. run() fails with StatusCode::device from
  /// then on.
  void release();

  /// Whether rows' results depend on their roles, on some device.
  bool two_classes() const { return two_classes_; }
  /// The host's threads, which compute nothing between runs; null if no device has any.
  ThreadPool* threads() const { return devices_.front()->threads(); }
  /// What a step of this shape reads and multiplies, however many rows it has.
  Work work(const StepShape& step) const { return step_work(*decode_graph_, step); }
  size_t programs() const { return programs_.size(); }

 private:
  Executor(const Model& model, const WeightTable& weights, std::span<Device* const> devices,
           const PlanRequest& request, const MemoryPlan& plan);

  Status load_weights(const MemoryPlan& plan, const std::function<bool(double)>& progress);
  Status load_weight(const DevicePlan& plan, size_t device, size_t weight);
  Status load_ropes(int64_t context);
  Result<std::span<const float>> read_logits(const CompiledStep& step, int64_t outputs);
  Result<CompiledStep> compile(int64_t rows, Roles roles);
  Roles roles_of(const StepBatch& batch) const;
  Status run_segments(CompiledStep& step, const Bindings& bindings);
  Status bring(const CompiledStep& step, const CompiledSegment& segment, const Bindings& bindings);
  Status show(const CompiledStep& step, const CompiledSegment& segment, const Bindings& bindings);
  Result<TensorRef> fetch(const CompiledStep& step, int32_t device, ValueId id,
                          const Bindings& bindings, std::vector<std::byte>& copy);
  void fill_rope_tables(const StepBatch& batch);
  void point_to_inputs(CompiledStep& step, const StepBatch& batch) const;

  /// What the executor has on one device.
  struct OnDevice {
    std::vector<std::unique_ptr<Buffer>> weight_buffers;
    std::vector<MemoryRef> weights;  ///< by index of the source's weights
    std::unique_ptr<Buffer> arena;
    std::unique_ptr<Buffer> scratch;
  };

  const Model& model_;
  const WeightTable& weights_;
  std::vector<Device*> devices_;
  PlanRequest request_;
  Placement placement_;
  std::vector<OnDevice> on_;                     ///< by device
  std::vector<RopeAngles> ropes_;                ///< by RoPE kind
  std::vector<std::vector<float>> rope_tables_;  ///< by RoPE kind, of the step
  std::vector<float> logits_;                    ///< of devices whose memory the host cannot read
  std::vector<std::byte> moved_;                 ///< between two such devices
  bool two_classes_ = false;
  bool spilled_ = false;  ///< weights leave memory layer by layer
  ProductObserver observer_;
  std::vector<std::byte> shown_, shown_experts_;  ///< what the observer sees, where the host has to
                                                  ///< be given a copy
  const Graph* decode_graph_ = nullptr;           ///< of the program of single tokens
  ProgramCache programs_;
};

}  // namespace infer
