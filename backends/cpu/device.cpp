#include "backends/cpu/device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "backends/cpu/fusion.h"
#include "backends/cpu/product.h"
#include "backends/cpu/streams.h"
#include "engine/core/checked.h"
#include "engine/core/platform/large_pages.h"
#include "engine/core/platform/memory.h"
#include "engine/core/platform/memory_nodes.h"
#include "engine/core/platform/processor.h"

namespace infer::cpu {
namespace {

constexpr int64_t kAlignment = 64;

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};
using HostBytes = std::unique_ptr<std::byte, Free>;

/// Host memory, owned (with a counter to give it back to) or adopted.
class HostBuffer final : public Buffer {
 public:
  HostBuffer(HostBytes data, int64_t size, std::atomic<int64_t>* counter)
      : owned_(std::move(data)), data_(owned_.get()), size_(size), counter_(counter) {
    counter_->fetch_add(size_);
  }
  explicit HostBuffer(std::span<std::byte> adopted)
      : data_(adopted.data()), size_(static_cast<int64_t>(adopted.size())) {}
  ~HostBuffer() override {
    if (counter_ != nullptr) counter_->fetch_sub(size_);
  }
  int64_t size() const override { return size_; }
  std::byte* address() const override { return data_; }
  bool in_file() const override { return counter_ == nullptr; }

 private:
  HostBytes owned_;
  std::byte* data_;
  int64_t size_;
  std::atomic<int64_t>* counter_ = nullptr;
};

const IsaKernels* best_isa() {
  const IsaKernels* best = nullptr;
  for (const IsaKernels& isa : all_isas()) {
    if (isa_runs_here(isa.name)) best = &isa;
  }
  return best;
}

void apply_memory(DeviceInfo& info) {
  const os::HostMemory memory = os::host_memory();
  info.memory_total = memory.total;
  info.memory_free = memory.available;
  info.memory_held = memory.held;
  info.thread_stack = memory.stack;
  info.memory = MemoryKind::host;
}

DeviceInfo describe(const IsaKernels& isa, int threads, int64_t nodes) {
  DeviceInfo info;
  info.name = "cpu";
  info.description = os::processor_name();
  info.threads = threads;
  if (nodes > 0) info.limits.emplace_back("memory_nodes", nodes);
  info.isa = isa.name;
  for (const IsaKernels& each : all_isas()) info.isas.emplace_back(each.name);
  apply_memory(info);
  return info;
}

std::vector<DeviceInfo> list() {
  return {describe(*best_isa(), available_threads(), std::ssize(os::memory_nodes()))};
}

Result<std::unique_ptr<Device>> open(int32_t index, const DeviceOptions& options) {
  if (index > 0)
    return fail(StatusCode::not_found, "there is one device 'cpu', not 'cpu:{}'", index);
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return fail(StatusCode::invalid_argument, "threads: expected 1 to {}, found {}", kMaxThreads,
                options.threads);
  }
  const IsaKernels* chosen = best_isa();
  if (!options.isa.empty()) {
    const auto isas = all_isas();
    const auto it = std::ranges::find(isas, options.isa, &IsaKernels::name);
    if (it == isas.end() || !isa_runs_here(options.isa)) {
      return fail(StatusCode::invalid_argument,
                  "instruction set '{}' is not built in or does not run here", options.isa);
    }
    chosen = &*it;
  }
  try {
    return std::make_unique<CpuDevice>(*chosen, options);
  } catch (const std::system_error& e) {
    // Each takes memory for its stack, and this is how the system says that there is none.
    const bool refused = e.code() == std::errc::resource_unavailable_try_again;
    return fail(
        refused ? StatusCode::out_of_memory : StatusCode::device,
        "cpu: cannot start {} threads: {}{}",
        options.threads > 0 ? options.threads : available_threads(), e.code().message(),
        refused ? "; there is no memory for their stacks, or the system allows no more" : "");
  }
}

}  // namespace

const RowKernel* CpuContext::row_kernel(DType weights) const {
  const auto it = std::ranges::find(isa->rows, weights, &RowKernel::weights);
  return it == isa->rows.end() ? nullptr : *it;
}

int CpuContext::threads() const { return pool->size(); }

const OpTable<CpuOp>& cpu_ops() {
  static const OpTable<CpuOp> table(all_cpu_ops());
  return table;
}

CpuDevice::CpuDevice(const IsaKernels& isa, const DeviceOptions& options, const OpTable<CpuOp>& ops)
    : own_pool_(options.beside != nullptr
                    ? nullptr
                    : std::make_unique<ThreadPool>(
                          options.threads > 0 ? options.threads : available_threads(),
                          os::memory_nodes())),
      context_{&isa,
               own_pool_ ? own_pool_.get()
                         : static_cast<const CpuDevice*>(options.beside)->context_.pool,
               options.exact,
               options.repack,
               &ops,
               options.threads > 0 ? nullptr : &lone_},
      info_(describe(isa, context_.threads(), std::ssize(context_.pool->nodes()))) {}

DeviceInfo CpuDevice::info() const {
  DeviceInfo info = info_;
  apply_memory(info);
  info.streams = context_.streams;
  return info;
}

Ceilings CpuDevice::measure_ceilings() { return measure(context_); }

Status CpuDevice::capability(const Graph& graph, const Node& node) const {
  INFER_CHECK(context_.ops->check(node.op(), "cpu"));
  return context_.ops->find(node.op())->supports({graph, node});
}

int64_t CpuDevice::packed_bytes(const TensorDesc& desc) const {
  return round_up(stored_bytes(context_, desc), kAlignment);
}

std::vector<NodePhase> CpuDevice::phases(const Segment& segment) const {
  std::vector<NodePhase> of_node(segment.nodes().size());
  int32_t current = 0;
  for (const Phase& phase : plan_phases(segment, context_)) {
    if (phase.barrier) ++current;
    for (int32_t n = phase.call.begin(); n < phase.call.end(); ++n) {
      of_node[static_cast<size_t>(n - segment.begin)] = {current, phase.call.stores(n)};
    }
  }
  return of_node;
}

int64_t CpuDevice::scratch_bytes(const Segment& segment) const {
  int64_t most = 0;
  for (const Node& node : segment.nodes()) {
    const CpuOp* op = context_.ops->find(node.op());
    if (op != nullptr) most = std::max(most, op->scratch({*segment.graph, node}, context_));
  }
  return round_up(most, kAlignment);
}

int64_t CpuDevice::alignment() const { return kAlignment; }

Result<std::unique_ptr<Buffer>> CpuDevice::alloc(int64_t bytes, Purpose purpose) {
  const int64_t rounded = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  HostBytes data(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(rounded))));
  if (data == nullptr) {
    return fail(StatusCode::out_of_memory, "cpu: cannot allocate {} bytes for {}", bytes,
                purpose_name(purpose));
  }
  ThreadPool& pool = *context_.pool;
  if (!pool.nodes().empty()) {
    // Each thread is the first to touch its weights (load.cpp). Any of them may read the cache.
    if (purpose == Purpose::kv) os::spread_over(pool.nodes(), data.get(), bytes);
  } else if (purpose == Purpose::weights && bytes >= kWorthLargePages) {
    pool.run([&](int thread) {
      const Range part = split_range(bytes, thread, pool.size(), 4096);
      os::take_large_pages(data.get() + part.begin, part.end - part.begin);
    });
  }
  return std::make_unique<HostBuffer>(std::move(data), bytes,
                                      &allocated_[static_cast<size_t>(purpose)]);
}

int64_t CpuDevice::allocated(Purpose purpose) const {
  return allocated_[static_cast<size_t>(purpose)].load();
}

Status CpuDevice::load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) {
  return load(context_, desc, read, to);
}

std::unique_ptr<Buffer> CpuDevice::adopt(const TensorDesc&, std::span<const std::byte> bytes) {
  if (context_.repack) return nullptr;
  // Kernels only read weights; the interface of Buffer is the writable one.
  return std::make_unique<HostBuffer>(
      std::span(const_cast<std::byte*>(bytes.data()), bytes.size()));
}

std::optional<HostLayout> CpuDevice::host_layout(const TensorDesc& desc) const {
  const Product product = Product::choose(context_, desc);
  if (!product.packed) return HostLayout();
  return product.layout.host_layout();
}

Result<std::unique_ptr<Program>> CpuDevice::compile(const CompileSpec& spec) {
  for (const Node& node : spec.segment.nodes()) {
    INFER_CHECK_R(capability(*spec.segment.graph, node));
  }
  if (!streams_measured_) {
    const std::optional<int> streams = measure_streams(context_, spec);
    if (streams) context_.streams = *streams;
    streams_measured_ = streams.has_value();
  }
  return compile_program(context_, spec);
}

const std::byte* CpuDevice::view(const MemoryRef& from) const {
  return from.buffer->address() + from.offset;
}

Status CpuDevice::read(const MemoryRef& from, std::span<std::byte> to) {
  std::memcpy(to.data(), view(from), to.size());
  return {};
}

Status CpuDevice::write(std::span<const std::byte> from, const MemoryRef& to) {
  std::memcpy(to.buffer->address() + to.offset, from.data(), from.size());
  return {};
}

Status CpuDevice::copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) {
  std::memcpy(to.buffer->address() + to.offset, view(from), static_cast<size_t>(bytes));
  return {};
}

}  // namespace infer::cpu

namespace infer {

const BackendDef& cpu_backend() {
  static const BackendDef def{"cpu", cpu::list, cpu::open};
  return def;
}

}  // namespace infer
