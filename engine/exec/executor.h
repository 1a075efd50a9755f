// Runs the steps of one model. The Executor owns its weights, its memory for intermediate results
// and its compiled programs, on each device that has a part of the model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/exec/logit_reader.h"
#include "engine/exec/ngram_reader.h"
#include "engine/exec/step_recorder.h"
#include "engine/exec/work.h"
#include "engine/graph/tensor_ref.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"
#include "engine/plan/planner.h"

namespace infer {

/// How many tokens before the first row of each sequence a step may need.
inline constexpr size_t kTokensBefore = kMostNgram - 1;

/// The rows of one step. Each vector has one entry for each row, except those of outputs.
struct StepBatch {
  std::vector<int32_t> tokens;       ///< token ids
  std::vector<Position> positions;   ///< for RoPE
  std::vector<int32_t> slots;        ///< place in the sequence, from 0: selects page and slot
  std::vector<int32_t> sequences;    ///< row of the block tables
  std::vector<int32_t> output_rows;  ///< indices of the rows that return logits
  /// By sequence: the tokens before its first row, the latest last, zeros before the earliest:
  /// kTokensBefore of each. Only of models with ModelInfo::ngrams must they be there.
  std::vector<int32_t> before;
  /// Where the first token of each row's block (RopeSpec::block) is for RoPE; empty: at its slot.
  std::vector<Position> block_positions;
  // Only of models that make vectors of texts (ModelInfo::embeds); else empty:
  std::vector<int32_t> output_ends;  ///< by output: one past the text's last row
  std::vector<int32_t> text_begins;  ///< first row of the row's text
  std::vector<int32_t> text_ends;    ///< one past the last row of the row's text
  std::vector<int32_t> token_types;  ///< 0, or 1 in the second of two texts
  /// By index of StepInput::image: [rows][width], 0 for rows of no image. Only of models that take
  /// images (ModelInfo::takes_images), and empty if no row is of one.
  std::vector<std::vector<float>> images;
  std::vector<int32_t> text_tokens;  ///< with images: StepInput::text_tokens
  /// With images whose rows see each other, or blocks of a draft head: the last slot of each row.
  std::vector<int32_t> last_seen;
  /// Of towers: the lists of StepInput::output_rows beyond the first, as long as that.
  std::vector<std::vector<int32_t>> more_output_rows;
  /// By index of StepInput::adapter: the factor of each row. Only of models with adapters
  /// (ModelInfo::adapter_alphas), and empty if no row has one.
  std::vector<std::vector<float>> adapters;
  std::vector<int32_t> part_begins, part_ends;  ///< of towers: the second division into texts
  // Only of draft heads:
  std::vector<float> hidden;      ///< [rows][ModelInfo::takes_hidden]
  std::vector<float> own_hidden;  ///< [rows][ModelInfo::takes_own]

  std::span<const KvPages> pages;  ///< by kind (KvCache::pages)
  int64_t generated = 0;           ///< the first rows: tokens that the model made itself
  LogitsNeeded needed;             ///< of every output row

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
  StepShape shape() const;
  /// Begins the rows of the next sequence, with the tokens before the first of them.
  void begin_sequence(std::span<const int32_t> tokens);
  void clear();
};

/// Consecutive nodes of a step that one device computes.
struct CompiledSegment {
  /// A value that another device made. It is copied to this device before the segment runs.
  struct Arrival {
    ValueId value;
    int32_t from;  ///< number of the other device
  };
  std::unique_ptr<Program> program;
  int32_t device = 0;
  int32_t begin = 0;  ///< first node
  std::vector<Arrival> arrivals;
  std::vector<StreamedWeight> streamed;  ///< weights that its device gets for it
  int32_t place = 0;                     ///< where they go: WeightStream::bring()
  int32_t brings = -1;                   ///< the segment whose weights come there next; −1: none
  /// The next segment needs nothing of this one, and its device computes while the host runs this
  /// one: it is submitted first.
  bool next_goes_first = false;
};

/// A graph and the programs that compute it, in order.
struct CompiledStep {
  std::unique_ptr<Graph> graph;
  std::vector<CompiledSegment> segments;       ///< one per node if PlanRequest::observed
  std::vector<std::vector<MemoryRef>> memory;  ///< by device and ValueId
  std::vector<int32_t> output_devices;         ///< of Graph::outputs(): who makes each
  std::vector<int32_t> brought_first;          ///< segments whose weights come before all others
  std::vector<ValueId> inputs;                 ///< values that the host sets before every run
  std::vector<const std::byte*> pointers;      ///< by ValueId: host memory of these inputs
};

/// A product of activations and a weight, shown before it is computed. The memory of both tensors
/// is valid during the call.
struct ObservedProduct {
  OpId op;                ///< Matmul, MoeMatmul or HeadMatmul
  int32_t weight;         ///< index of the source's weights
  TensorRef activations;  ///< f32 [k, d1, rows]: the first input of the operation
  TensorRef experts;      ///< MoeMatmul: the chosen experts, i32 [used, 1, rows]; else no data
};
/// Receives products. If it fails, the step fails with its status.
using ProductObserver = std::function<Status(const ObservedProduct&)>;

/// What a compiled step is for.
struct StepForm {
  int64_t rows = 1;  ///< at most: a row_bucket()
  Roles roles = Roles::generated;
  RowExtras extras = {};
  auto operator<=>(const StepForm&) const = default;
};

/// Compiled steps by form. Not thread-safe.
class ProgramCache {
 public:
  using Make = std::function<Result<CompiledStep>(const StepForm& form)>;
  explicit ProgramCache(Make make) : make_(std::move(make)) {}
  /// Returns the step, calling Make on the first use. The pointer is valid until close(). Errors:
  /// those of Make.
  Result<CompiledStep*> get(const StepForm& form);
  size_t size() const { return programs_.size(); }
  /// Frees all programs; their graphs stay valid. Later calls of get() fail with
  /// StatusCode::device.
  void close();

 private:
  using Programs = std::map<StepForm, CompiledStep>;
  Make make_;
  Programs programs_;
  Programs closed_;  ///< without their segments
};

/// Not thread-safe: one thread makes all calls. The model, the weight table and the devices outlive
/// the executor, or for the devices its release().
class Executor {
 public:
  /// Allocates the memory of the plan, loads the weights and compiles the program for one row. The
  /// plan was made for this request and these devices. `progress` (may be empty) is called with the
  /// done share of the weights, 0 to 1; if it returns false, loading ends with cancelled. Other
  /// errors: those of Device, of reading the file, and bad_file for RoPE factors. `lender`, if not
  /// null, has the weights that the plan left to it (PlanRequest::lender), and lives longer than
  /// the runs.
  static Result<std::unique_ptr<Executor>> create(const Model& model, const WeightTable& weights,
                                                  std::span<Device* const> devices,
                                                  const PlanRequest& request,
                                                  const MemoryPlan& plan,
                                                  const std::function<bool(double)>& progress,
                                                  const Executor* lender = nullptr);

  /// Computes a step of 1 to max_rows rows. Returns the graph's output, [vocabulary] logits or a
  /// vector for each output row in the order of output_rows. Logits that are not needed may be
  /// −infinity. They are valid until the next run. `recorder`, if not null, is
  /// between begin_step() and end_step(). Errors: device, out_of_memory, those of the observer, and
  /// internal for a step larger than planned.
  Result<std::span<const float>> run(const StepBatch& batch, StepRecorder* recorder = nullptr);

  /// Rows [begin, begin + count) of the last run's result "hidden": of its tokens if the model
  /// returns hidden states (Model::return_hidden), of its outputs if it is a draft head. Read only
  /// now. Valid until the next call or run. Errors: those of Device::read.
  Result<std::span<const float>> hidden(int64_t begin, int64_t count);
  const ModelInfo& info() const { return model_.info(); }

  /// Shows every product of all later steps to the observer, in the order of the graph. Works only
  /// if the model was planned with PlanRequest::observed.
  void observe(ProductObserver observer) { observer_ = std::move(observer); }

  ~Executor();

  /// Frees all memory and programs on the devices. Graphs stay valid. Later runs fail with
  /// StatusCode::device.
  void release();

  /// True if the results of a row depend on its role: on some device (Device::two_classes), or
  /// because of separate_roles().
  bool two_classes() const { return two_classes_; }
  /// Tokens of prompts and generated ones are computed in steps of their own: their layers are not
  /// on the same devices (Placement::prompts).
  bool separate_roles() const { return !placement_.prompts.empty(); }
  /// The threads of the first device (Device::threads), or null. They are idle between runs. Not
  /// after release().
  ThreadPool* threads() const { return devices_.front()->threads(); }
  /// Bytes read and multiply-accumulates of a step of this shape, for any number of rows.
  Work work(const StepShape& step) const { return step_work(*decode_graph_, step); }
  size_t programs() const { return programs_.size(); }

 private:
  Executor(const Model& model, const WeightTable& weights, std::span<Device* const> devices,
           const PlanRequest& request, const MemoryPlan& plan);

  Status load_weights(const MemoryPlan& plan, const std::function<bool(double)>& progress);
  Status load_weight(const DevicePlan& plan, size_t device, size_t weight);
  Status open_streams();
  void close_streams();
  Status load_ropes(int64_t context);
  Result<std::span<const float>> read_logits(const CompiledStep& step, int64_t outputs,
                                             const LogitsNeeded& needed);
  Result<CompiledStep> compile(const StepForm& form);
  void take_streamed(const PlacedSegment& placed, CompiledStep& step) const;
  Roles roles_of(const StepBatch& batch) const;
  Status check_images(const StepBatch& batch) const;
  Status check_adapters(const StepBatch& batch) const;
  Status run_segments(CompiledStep& step, const Bindings& bindings);
  Status bring_weights(const CompiledStep& step, int32_t segment);
  Status submit(const CompiledStep& step, CompiledSegment& segment, const Bindings& bindings);
  Status finish(int32_t device);
  Status finish_all();
  Status bring(const CompiledStep& step, const CompiledSegment& segment, const Bindings& bindings);
  Status show(const CompiledStep& step, const CompiledSegment& segment, const Bindings& bindings);
  Result<TensorRef> fetch(const CompiledStep& step, int32_t device, ValueId id,
                          const Bindings& bindings, std::vector<std::byte>& copy);
  void fill_rope_tables(const StepBatch& batch);
  void fill_places(const CompiledStep& step, const StepBatch& batch);
  void point_to_inputs(CompiledStep& step, const StepBatch& batch) const;

  /// The executor's memory on one device.
  struct OnDevice {
    std::vector<std::unique_ptr<Buffer>> weight_buffers;
    std::vector<MemoryRef> weights;  ///< by index of the source's weights
    std::unique_ptr<Buffer> arena;
    std::unique_ptr<Buffer> scratch;
    // Of weights that the device gets for steps with prompts:
    std::unique_ptr<Buffer> streamed;
    std::unique_ptr<WeightStream> stream;
  };

  const Model& model_;
  const WeightTable& weights_;
  std::vector<Device*> devices_;
  PlanRequest request_;
  Placement placement_;
  std::vector<StreamPlan> streams_;              ///< by device
  std::vector<OnDevice> on_;                     ///< by device
  std::vector<std::vector<Program*>> running_;   ///< by device: submitted and not waited for
  std::vector<RopeAngles> ropes_;                ///< by RoPE kind
  std::vector<std::vector<float>> rope_tables_;  ///< by RoPE kind, of the step
  /// By slots of a block: StepInput::places of the step.
  std::map<int32_t, std::vector<int32_t>> places_;
  std::optional<NgramReader> ngrams_;
  LogitReader reader_;
  const CompiledStep* last_ = nullptr;  ///< of the last run
  std::vector<float> hidden_;           ///< a copy, if the host cannot read the device's memory
  std::vector<std::byte> moved_;        ///< a piece on its way from one device to another
  bool two_classes_ = false;
  bool spilled_ = false;  ///< MemoryPlan::spilled
  ProductObserver observer_;
  // Copies for the observer, if the host cannot read the device's memory:
  std::vector<std::byte> shown_, shown_experts_;
  const Graph* decode_graph_ = nullptr;  ///< graph of the program for one row
  ProgramCache programs_;
};

}  // namespace infer
