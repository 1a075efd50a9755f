#include "backends/cuda/device.h"

#include <algorithm>

#include "backends/cuda/ceilings.h"
#include "backends/cuda/fusion.h"
#include "backends/cuda/packing.h"
#include "backends/cuda/program.h"
#include "backends/cuda/step_memory.h"
#include "backends/gpu/tables.h"
#include "engine/core/checked.h"
#include "engine/core/log.h"

namespace infer::cuda {
namespace {

using gpu::address_of;

/// Ten times the only compute capability that has products of warpgroups.
constexpr int32_t kWarpgroups = 90;

std::vector<DeviceInfo> list() {
  const auto driver = Driver::get();
  if (!driver) {
    log(LogLevel::info, "{}", driver.error().message());
    return {};
  }
  std::vector<DeviceInfo> infos;
  for (const Gpu& gpu : (*driver)->gpus()) infos.push_back(info_of(gpu));
  return infos;
}

/// A part of the heap that counts for a purpose.
class HeapBuffer final : public Buffer {
 public:
  HeapBuffer(std::unique_ptr<RawBuffer> memory, std::atomic<int64_t>& counter)
      : memory_(std::move(memory)), counter_(counter) {
    counter_.fetch_add(memory_->size());
  }
  ~HeapBuffer() override { counter_.fetch_sub(memory_->size()); }
  int64_t size() const override { return memory_->size(); }
  std::byte* address() const override {
    return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(memory_->address()));
  }

 private:
  std::unique_ptr<RawBuffer> memory_;
  std::atomic<int64_t>& counter_;
};

Result<std::unique_ptr<Device>> open(int32_t index, const DeviceOptions& options) {
  return CudaDevice::open(index, options.exact);
}

}  // namespace

Status check_node(const Graph& graph, const Node& node, const Target& target) {
  INFER_CHECK(target.ops.check(node.op(), "cuda"));
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& storage = graph.value(graph.storage(id));
    if (storage.kind != Value::Kind::weight || graph.storage(id) == id) continue;
    // Float32 is kept as it is stored; other types are packed by rows.
    if (storage.desc.type == DType::f32 && graph.value(id).desc.contiguous()) continue;
    return error(StatusCode::unsupported, "this part of a weight as an operand is not supported");
  }
  return target.ops.find(node.op())->supports({graph, node, target.gpu});
}

Result<std::unique_ptr<Device>> CudaDevice::open(int32_t index, bool exact,
                                                 const CudaOptions& own) {
  std::shared_ptr<const Driver> driver = own.driver;
  if (driver == nullptr) {
    INFER_TRY(driver, Driver::get());
  }
  const std::span<const Gpu> gpus = driver->gpus();
  if (index < 0) index = std::max(best_gpu(gpus), 0);
  if (static_cast<size_t>(index) >= gpus.size()) {
    return fail(StatusCode::not_found, "there is no device 'cuda:{}'; the driver shows {}", index,
                gpus.size());
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice());
  device->ops_ = own.ops != nullptr ? own.ops : &cuda_ops();
  INFER_TRY(device->context_, Context::create(driver, gpus[static_cast<size_t>(index)]));
  device->tuning_ = own.tuning.value_or(Tuning());
  if (exact) device->tuning_.integer = device->tuning_.matrices = false;
  INFER_TRY(device->transfer_, Transfer::create(*device->context_));
  device->modules_ = std::make_unique<Modules>(*device->context_);
  if (device->tuning_.warpgroups && device->context_->gpu().capability == kWarpgroups) {
    INFER_TRY(device->tuning_.warpgroups, device->modules_->has_kernels("warpgroup_rate"));
  } else {
    device->tuning_.warpgroups = false;
  }
  const std::vector<uint16_t> tables = gpu::iq_tables();
  const auto bytes = std::as_bytes(std::span(tables));
  INFER_TRY(device->tables_,
            RawBuffer::create(*device->context_, static_cast<int64_t>(bytes.size())));
  INFER_CHECK_R(device->transfer_->write(bytes, device->tables_->address()));
  device->near_largest_ = std::make_unique<NearLargest>(*device->context_, *device->modules_);
  INFER_CHECK_R(device->near_largest_->start());
  if (const int64_t unused = device->heap().unused(); unused > 0) {
    INFER_TRY(device->rest_, RawBuffer::create(*device->context_, unused));
  }
  return device;
}

DeviceInfo CudaDevice::info() const {
  DeviceInfo info = info_of(context_->gpu());
  info.memory_free = context_->memory_free();
  return info;
}

/// Copies within the device read and write as fast as memory lets them.
Ceilings CudaDevice::measure_ceilings() {
  Ceilings found;
  found.read_bandwidth_gb_s = measure_copy_bandwidth(*context_);
  found.int8_mac_g_s = measure_integer_rate(*context_, *modules_);
  found.prompt_mac_g_s = measure_matrix_rate(*context_, *modules_);
  return found;
}

Status CudaDevice::capability(const Graph& graph, const Node& node) const {
  return check_node(graph, node, target());
}

int64_t CudaDevice::packed_bytes(const TensorDesc& desc) const {
  return round_up(weight_layout(desc).bytes, kAlignment);
}

int64_t CudaDevice::scratch_bytes(const Segment& segment) const {
  return cuda::scratch_bytes(segment, target());
}

std::vector<NodePhase> CudaDevice::phases(const Segment& segment) const {
  return plan_phases(segment, target());
}

Result<std::unique_ptr<Buffer>> CudaDevice::alloc(int64_t bytes, Purpose purpose) {
  auto memory = RawBuffer::create(*context_, bytes);
  if (!memory) {
    return fail(memory.error().code(), "{} ({} bytes for {})", memory.error().message(), bytes,
                purpose_name(purpose));
  }
  return std::make_unique<HeapBuffer>(*std::move(memory), allocated_[static_cast<size_t>(purpose)]);
}

int64_t CudaDevice::program_bytes(const Segment& segment) const {
  return StepMemory::planned_bytes(segment, target().counters(segment));
}

int64_t CudaDevice::allocated(Purpose purpose) const {
  return allocated_[static_cast<size_t>(purpose)].load();
}

Status CudaDevice::load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) {
  gpu::Packer packer(weight_layout(desc), read, packing_);
  return transfer_->upload(address_of(to),
                           [&](std::span<std::byte> out, std::vector<gpu::StagedCopy>& copies) {
                             return packer.next(out, copies);
                           });
}

std::unique_ptr<Buffer> CudaDevice::adopt(const TensorDesc&, std::span<const std::byte>) {
  return nullptr;
}

Result<std::unique_ptr<WeightStream>> CudaDevice::open_stream(
    std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>>,
    const MemoryRef& work) {
  return CudaWeightStream::create(*context_, *modules_, repacking_, weights, address_of(work));
}

Result<std::unique_ptr<Program>> CudaDevice::compile(const CompileSpec& spec) {
  for (const Node& node : spec.segment.nodes()) {
    INFER_CHECK_R(capability(*spec.segment.graph, node));
  }
  return compile_program(*context_, *modules_, target(), tables_->address(), spec);
}

Status CudaDevice::read(const MemoryRef& from, std::span<std::byte> to) {
  return transfer_->read(address_of(from), to);
}

Status CudaDevice::near_largest(const MemoryRef& values, int64_t columns, int64_t rows, float reach,
                                std::vector<std::vector<IndexedValue>>& found) {
  return near_largest_->find(address_of(values), columns, rows, reach, found);
}

Status CudaDevice::write(std::span<const std::byte> from, const MemoryRef& to) {
  return transfer_->write(from, address_of(to));
}

Status CudaDevice::copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) {
  return transfer_->copy(address_of(from), address_of(to), bytes);
}

bool CudaDevice::reaches(const Device& other) const {
  const auto* const from = dynamic_cast<const CudaDevice*>(&other);
  if (from == nullptr || from == this) return false;
  const std::span<const int32_t> peers = from->context_->peers();
  return std::ranges::find(peers, context_->gpu().index) != peers.end();
}

/// Both devices have been waited for: so the copy may run on the stream of either.
Status CudaDevice::copy_from(Device& other, const MemoryRef& from, const MemoryRef& to,
                             int64_t bytes) {
  const auto& source = static_cast<const CudaDevice&>(other);
  return transfer_->copy_from(*source.context_, address_of(from), address_of(to), bytes);
}

}  // namespace infer::cuda

namespace infer {

const BackendDef& cuda_backend() {
  static const BackendDef def{"cuda", cuda::list, cuda::open};
  return def;
}

}  // namespace infer
