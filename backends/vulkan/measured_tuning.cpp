#include "backends/vulkan/measured_tuning.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "backends/vulkan/kept_file.h"
#include "backends/vulkan/program.h"
#include "engine/backend/device.h"
#include "engine/backend/profiler.h"

namespace infer::vulkan {
namespace {

constexpr uint32_t kTall[] = {1, 2, 4};
constexpr uint32_t kTallest = 8;  // that a family may begin with
constexpr uint32_t kVectorColumns[] = {8, 16, 32};

/// Products of the most common type, each of the result before: so many that submitting them takes
/// little beside, with 170 MB of weights in all, more than the caches hold.
constexpr DType kType = DType::q4_0;
constexpr int64_t kWidth = 6144;
constexpr int64_t kPromptColumns = 512;
/// On a processor, which tests measure.
constexpr int64_t kShortWidth = 512;
constexpr int64_t kFewPromptColumns = 64;
constexpr int32_t kProducts = 8;
constexpr int kRounds = 3;
constexpr double kBetter = 0.95;
/// Beyond noise: with matrices tokens of prompts are a numeric class of their own.
constexpr double kMuchSlower = 1.5;

/// InferOutputs of the nodes.
Result<std::vector<OutputDesc>> product_output(const OpParams&, InputDescs in, const KvGeometry&) {
  const int64_t rows = in[0]->desc.shape[2];
  return std::vector{OutputDesc{tensor(DType::f32, in[1]->desc.shape[1], 1, rows), Rows::tokens}};
}

/// Memory of a device, and a graph of the products with so many columns.
class Trial {
 public:
  static Result<std::unique_ptr<Trial>> create(Device& device, int64_t columns, int64_t width) {
    std::unique_ptr<Trial> trial(new Trial(columns));
    GraphBuilder builder(product_output, columns, 0, {});
    const TensorDesc x = tensor(DType::f32, width, 1, columns);
    ValueId y = builder.data_input(0, x, Rows::tokens);
    for (int32_t i = 0; i < kProducts; ++i) {
      const ValueId w = builder.weight(i, tensor(kType, width, width));
      y = builder.add(op::Matmul{}, {y, w, kNoValue, kNoValue});
    }
    builder.output(y);
    INFER_TRY(trial->graph_, builder.finish());
    trial->x_.resize(static_cast<size_t>(x.extent_bytes()));
    for (const Value& value : trial->graph_.values()) {
      trial->memory_.emplace_back();
      trial->inputs_.push_back(value.kind == Value::Kind::input ? trial->x_.data() : nullptr);
      if (value.kind == Value::Kind::input) continue;
      const bool weight = value.kind == Value::Kind::weight;
      INFER_TRY(std::unique_ptr<Buffer> buffer,
                device.alloc(weight ? device.packed_bytes(value.desc) : value.desc.extent_bytes(),
                             Purpose::scratch));
      if (weight) {
        const ReadFn zeros = [](uint64_t, std::span<std::byte> out) {
          std::ranges::fill(out, std::byte{0});
          return Status();
        };
        INFER_CHECK_R(device.load_weight(value.desc, zeros, {buffer.get(), 0}));
      }
      trial->memory_.back() = {buffer.get(), 0};
      trial->buffers_.push_back(std::move(buffer));
    }
    return trial;
  }

  /// Nanoseconds that the products take in this way, at best.
  Result<int64_t> time(Device& device, Context& context, Pipelines& pipelines, const Target& target,
                       Roles roles) {
    const Segment segment{&graph_, 0, static_cast<int32_t>(graph_.nodes().size()), roles};
    INFER_TRY(const std::unique_ptr<Buffer> scratch,
              device.alloc(std::max(scratch_bytes(segment, target), device.alignment()),
                           Purpose::scratch));
    constexpr VkDeviceAddress kNoTables = 0;  // the type needs none
    INFER_TRY(const std::unique_ptr<Program> program,
              compile_program(context, pipelines, target, kNoTables,
                              {segment, memory_, {scratch.get(), 0}}));
    int64_t best = std::numeric_limits<int64_t>::max();
    for (int i = 0; i <= kRounds; ++i) {
      const int64_t start = profile_clock();
      INFER_CHECK_R(program->run({columns_, 0, inputs_, {}, nullptr, columns_}));
      if (i > 0) best = std::min(best, profile_clock() - start);  // the first one warms up
    }
    return best;
  }

 private:
  explicit Trial(int64_t columns) : columns_(columns) {}

  int64_t columns_;
  Graph graph_;
  std::vector<std::byte> x_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<MemoryRef> memory_;
};

}  // namespace

Result<MeasuredTuning> measure_tuning(Device& device, Context& context, Pipelines& pipelines,
                                      const Target& target) {
  const PhysicalDevice& physical = target.device;
  const int64_t width = physical.processor ? kShortWidth : kWidth;
  Tuning tuning = target.tuning;
  const auto time = [&](Trial& trial, Roles roles) {
    return trial.time(device, context, pipelines, {physical, tuning, target.ops}, roles);
  };
  const auto is_better = [](int64_t one, int64_t other) {
    return static_cast<double>(one) < kBetter * static_cast<double>(other);
  };
  MeasuredTuning measured{tuning.tall, kVectorColumns[std::size(kVectorColumns) - 1], 0};

  INFER_TRY(const std::unique_ptr<Trial> one, Trial::create(device, 1, width));
  INFER_TRY(int64_t best, time(*one, Roles::generated));
  for (const uint32_t other : kTall) {
    if (other == target.tuning.tall) continue;
    tuning.tall = other;
    INFER_TRY(const int64_t found, time(*one, Roles::generated));
    if (!is_better(found, best)) continue;
    best = found;
    measured.tall = other;
  }
  tuning.tall = measured.tall;

  // Tiles begin behind the first number of columns that they compute faster.
  for (const uint32_t columns : kVectorColumns) {
    if (!tuning.tile || columns == measured.vector_columns) break;
    INFER_TRY(const std::unique_ptr<Trial> some, Trial::create(device, 2 * columns, width));
    tuning.vector_columns = 2 * columns;
    INFER_TRY(const int64_t by_vectors, time(*some, Roles::generated));
    tuning.vector_columns = columns;
    INFER_TRY(const int64_t by_tiles, time(*some, Roles::generated));
    if (is_better(by_tiles, by_vectors)) measured.vector_columns = columns;
  }

  // Also where matrices are not used now: what is kept is for all.
  tuning.matrices = true;
  if (!tuning.can_use_matrices(physical)) return measured;
  INFER_TRY(const std::unique_ptr<Trial> prompt,
            Trial::create(device, physical.processor ? kFewPromptColumns : kPromptColumns, width));
  best = std::numeric_limits<int64_t>::max();
  for (uint32_t i = 0; i < std::size(kMatrixTiles); ++i) {
    tuning.matrix_tile = kMatrixTiles[i];
    if (!tuning.matrix_tile.suits(physical)) continue;
    INFER_TRY(const int64_t found, time(*prompt, Roles::prompt));
    if (!is_better(found, best)) continue;
    best = found;
    measured.matrix_tile = i;
  }
  tuning.matrices = false;
  INFER_TRY(const int64_t without, time(*prompt, Roles::prompt));
  measured.matrices = static_cast<double>(best) <= kMuchSlower * static_cast<double>(without);
  return measured;
}

std::optional<MeasuredTuning> saved_tuning(const PhysicalDevice& device) {
  const std::vector<std::byte> data = read_kept(device, Kept::tuning);
  MeasuredTuning measured;
  if (data.size() != sizeof(measured)) return std::nullopt;
  std::memcpy(&measured, data.data(), sizeof(measured));
  if (measured.matrix_tile >= std::size(kMatrixTiles) || measured.matrices > 1 ||
      !std::has_single_bit(measured.tall) || measured.tall > kTallest ||
      std::ranges::find(kVectorColumns, measured.vector_columns) == std::end(kVectorColumns)) {
    return std::nullopt;
  }
  return measured;
}

Status save_tuning(const PhysicalDevice& device, const MeasuredTuning& measured) {
  return write_kept(device, Kept::tuning, std::as_bytes(std::span(&measured, 1)));
}

}  // namespace infer::vulkan
