#include "backends/vulkan/device.h"

#include <algorithm>

#include "backends/gpu/calls.h"
#include "backends/gpu/tables.h"
#include "backends/vulkan/ceilings.h"
#include "backends/vulkan/fusion.h"
#include "backends/vulkan/measured_tuning.h"
#include "backends/vulkan/neighbours.h"
#include "backends/vulkan/op.h"
#include "backends/vulkan/program.h"
#include "engine/core/checked.h"
#include "engine/core/log.h"

namespace infer::vulkan {
namespace {

Place place_of(const MemoryRef& at) {
  const auto& part = static_cast<const gpu::HeapBuffer<RawBuffer>*>(at.buffer)->part();
  return {part.block->handle(), part.offset + at.offset};
}

std::vector<DeviceInfo> list() {
  const auto instance = Instance::get();
  if (!instance) {
    log(LogLevel::info, "{}", instance.error().message());
    return {};
  }
  std::vector<DeviceInfo> infos;
  for (const PhysicalDevice& device : (*instance)->devices()) infos.push_back(device.info());
  return infos;
}

Result<std::unique_ptr<Device>> open(int32_t index, const DeviceOptions& options) {
  return VulkanDevice::open(index, options.exact, {.measure = MeasureDevice::if_hardware});
}

}  // namespace

Tuning restricted(Tuning tuning, const PhysicalDevice& device, bool exact) {
  if (exact || !device.integer_dots) tuning.integer = false;
  if (exact || !tuning.can_use_matrices(device)) tuning.matrices = false;
  return tuning;
}

Status check_node(const Graph& graph, const Node& node, const Target& target) {
  INFER_CHECK(target.ops.check(node.op(), "vulkan"));
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& storage = graph.value(graph.storage(id));
    if (storage.kind != Value::Kind::weight || graph.storage(id) == id) continue;
    // Float32 is kept as it is stored; other types are packed by rows.
    if (storage.desc.type == DType::f32 && graph.value(id).desc.contiguous()) continue;
    return error(StatusCode::unsupported, "this part of a weight as an operand is not supported");
  }
  return target.ops.find(node.op())->supports({graph, node, target.device});
}

Result<std::unique_ptr<Device>> VulkanDevice::open(int32_t index, bool exact,
                                                   const VulkanOptions& own) {
  std::shared_ptr<Instance> instance = own.instance;
  if (instance == nullptr) {
    INFER_TRY(instance, Instance::get());
  }
  const auto& all = instance->devices();
  if (index < 0) index = best_device(all);
  if (index < 0 || static_cast<size_t>(index) >= all.size()) {
    return fail(StatusCode::not_found, "there is no device 'vulkan:{}'; the drivers show {}",
                std::max(index, 0), all.size());
  }
  std::unique_ptr<VulkanDevice> device(new VulkanDevice());
  device->ops_ = own.ops != nullptr ? own.ops : &vulkan_ops();
  INFER_TRY(device->context_, Context::create(instance, all[static_cast<size_t>(index)]));
  const PhysicalDevice& physical = device->context_->physical();
  device->tuning_ = restricted(own.tuning.value_or(Tuning::of(physical)), physical, exact);
  device->heap_ = std::make_unique<Heap>(*device->context_);
  INFER_TRY(device->transfer_, Transfer::create(*device->context_));
  INFER_TRY(device->pipelines_, Pipelines::create(*device->context_));
  const std::vector<uint16_t> tables = gpu::iq_tables();
  const auto bytes = std::as_bytes(std::span(tables));
  INFER_TRY(device->tables_,
            RawBuffer::create(*device->context_, static_cast<int64_t>(bytes.size()), 0,
                              VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  INFER_CHECK_R(device->transfer_->write(bytes, {device->tables_->handle(), 0}));
  device->near_largest_ = std::make_unique<NearLargest>(*device->context_, *device->pipelines_);
  if (!own.tuning) device->use_measured_tuning(own.measure);
  return device;
}

void VulkanDevice::use_measured_tuning(MeasureDevice measure) {
  const PhysicalDevice& physical = context_->physical();
  if (measure == MeasureDevice::never) return;
  if (physical.processor && measure != MeasureDevice::always) return;
  std::optional<MeasuredTuning> measured = saved_tuning(physical);
  if (!measured) {
    const Result<MeasuredTuning> found = measure_tuning(*this, *context_, *pipelines_, target());
    if (!found) {
      log(LogLevel::info, "{} is not measured: {}", physical.name, found.error().message());
      return;
    }
    measured = *found;
    if (const Status saved = save_tuning(physical, *measured); !saved.ok()) {
      log(LogLevel::info, "measurements of {} are not saved: {}", physical.name, saved.message());
    }
  }
  const MatrixTile& tile = kMatrixTiles[measured->matrix_tile];
  log(LogLevel::info,
      "{}: {} rows a lane, tiles beyond {} columns, of matrices {} x {}, {} x {} each{}",
      physical.name, measured->tall, measured->vector_columns, tile.rows, tile.columns,
      tile.own_rows, tile.own_columns,
      measured->matrices == 0 ? "; they are slow and not used" : "");
  tuning_.tall = measured->tall;
  tuning_.vector_columns = measured->vector_columns;
  if (tile.suits(physical)) tuning_.matrix_tile = tile;
  if (measured->matrices == 0) tuning_.matrices = false;
}

DeviceInfo VulkanDevice::info() const { return context_->physical().info(); }

Ceilings VulkanDevice::measure_ceilings() {
  Ceilings found;
  found.read_bandwidth_gb_s = measure_bandwidth(*context_, *pipelines_);
  found.int8_mac_g_s = measure_integer_rate(*context_, *pipelines_);
  if (tuning_.matrices) found.prompt_mac_g_s = measure_matrix_rate(*context_, *pipelines_);
  return found;
}

Status VulkanDevice::capability(const Graph& graph, const Node& node) const {
  return check_node(graph, node, target());
}

int64_t VulkanDevice::packed_bytes(const TensorDesc& desc) const {
  return round_up(gpu::WeightLayout(desc).bytes, kAlignment);
}

int64_t VulkanDevice::scratch_bytes(const Segment& segment) const {
  return vulkan::scratch_bytes(segment, target());
}

std::vector<NodePhase> VulkanDevice::phases(const Segment& segment) const {
  return plan_phases(segment, target());
}

int64_t VulkanDevice::largest_buffer() const {
  return context_->physical().largest_allocation / kAlignment * kAlignment;
}

Result<std::unique_ptr<Buffer>> VulkanDevice::alloc(int64_t bytes, Purpose purpose) {
  return gpu::allocate_buffer(*heap_, bytes, purpose, allocated_[static_cast<size_t>(purpose)]);
}

int64_t VulkanDevice::allocated(Purpose purpose) const {
  return allocated_[static_cast<size_t>(purpose)].load();
}

Status VulkanDevice::load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) {
  gpu::Packer packer(weight_layout(desc), read, packing_);
  return transfer_->upload(place_of(to),
                           [&](std::span<std::byte> out, std::vector<gpu::StagedCopy>& copies) {
                             return packer.next(out, copies);
                           });
}

std::unique_ptr<Buffer> VulkanDevice::adopt(const TensorDesc&, std::span<const std::byte>) {
  return nullptr;
}

Result<std::unique_ptr<WeightStream>> VulkanDevice::open_stream(
    std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
    const MemoryRef& work) {
  return VulkanWeightStream::create(*context_, *pipelines_, *transfer_, repacking_, weights, host,
                                    place_of(work), gpu::address_of(work));
}

Result<std::unique_ptr<Program>> VulkanDevice::compile(const CompileSpec& spec) {
  for (const Node& node : spec.segment.nodes()) {
    INFER_CHECK_R(capability(*spec.segment.graph, node));
  }
  return compile_program(*context_, *pipelines_, target(), tables_->address(), spec);
}

Status VulkanDevice::read(const MemoryRef& from, std::span<std::byte> to) {
  return transfer_->read(place_of(from), to);
}

Status VulkanDevice::near_largest(const MemoryRef& values, int64_t columns, int64_t rows,
                                  float reach, std::vector<std::vector<IndexedValue>>& found) {
  const auto base = reinterpret_cast<uintptr_t>(values.buffer->address());
  return near_largest_->find(base + static_cast<VkDeviceAddress>(values.offset), columns, rows,
                             reach, found);
}

Status VulkanDevice::write(std::span<const std::byte> from, const MemoryRef& to) {
  return transfer_->write(from, place_of(to));
}

Status VulkanDevice::copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) {
  return transfer_->copy(place_of(from), place_of(to), bytes);
}

}  // namespace infer::vulkan

namespace infer {

const BackendDef& vulkan_backend() {
  static const BackendDef def{"vulkan", vulkan::list, vulkan::open};
  return def;
}

}  // namespace infer
