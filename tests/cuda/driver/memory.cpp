// Devices, contexts, memory, streams and events.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/cuda/driver/api.h"

using infer::test::Allocation;
using infer::test::current_of_thread;
using infer::test::kGranule;
using infer::test::State;
using infer::test::TestGpu;

namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Memory that nobody wrote is NaN in every type of floating point.
void* undefined_memory(size_t bytes) {
  constexpr size_t kAlignment = 512;
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const at = std::aligned_alloc(kAlignment, whole);
  if (at != nullptr) std::memset(at, 0xff, whole);
  return at;
}

bool has_device(const State& state, CUdevice device) {
  return state.started && device >= 0 && static_cast<size_t>(device) < state.gpus.size();
}

/// What the driver takes of a device for an allocation.
int64_t counted(size_t bytes) {
  return (static_cast<int64_t>(bytes) + kGranule - 1) / kGranule * kGranule;
}

CUresult add_work(State& state, const char* name, CUstream stream, std::function<CUresult()> work) {
  INFER_EXPECT(name, state.streams.contains(stream));
  INFER_EXPECT(name, stream->context == current_of_thread());
  stream->work.push_back(std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace

INFER_CU cuInit(unsigned flags) {
  INFER_BEGIN("cuInit", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuInit", flags == 0);
  state.started = true;
  return state.gpus.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

INFER_CU cuDriverGetVersion(int* version) {
  *version = State::get().version();
  return CUDA_SUCCESS;
}

INFER_CU cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case CUDA_ERROR_UNKNOWN: *name = "CUDA_ERROR_UNKNOWN"; break;
    default: *name = "CUDA_ERROR_INVALID_VALUE"; break;
  }
  return CUDA_SUCCESS;
}

INFER_CU cuDeviceGetCount(int* count) {
  INFER_BEGIN("cuDeviceGetCount", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuDeviceGetCount", state.started);
  *count = static_cast<int>(state.gpus.size());
  return CUDA_SUCCESS;
}

INFER_CU cuDeviceGet(CUdevice* device, int ordinal) {
  INFER_BEGIN("cuDeviceGet", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuDeviceGet", has_device(state, ordinal));
  *device = ordinal;
  return CUDA_SUCCESS;
}

INFER_CU cuDeviceGetName(char* name, int length, CUdevice device) {
  INFER_BEGIN("cuDeviceGetName", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuDeviceGetName", has_device(state, device) && length > 0);
  std::strncpy(name, state.gpus[static_cast<size_t>(device)].name.c_str(),
               static_cast<size_t>(length));
  return CUDA_SUCCESS;
}

INFER_CU cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  INFER_BEGIN("cuDeviceGetAttribute", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuDeviceGetAttribute", has_device(state, device));
  const TestGpu& gpu = state.gpus[static_cast<size_t>(device)];
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = gpu.capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = gpu.capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = gpu.multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = static_cast<int>(gpu.shared_bytes);
      break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = gpu.pci_bus; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = gpu.virtual_memory;
      break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

INFER_CU cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  INFER_BEGIN("cuDeviceTotalMem", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuDeviceTotalMem", has_device(state, device));
  *bytes = static_cast<size_t>(state.gpus[static_cast<size_t>(device)].memory);
  return CUDA_SUCCESS;
}

INFER_CU cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  INFER_BEGIN("cuDeviceCanAccessPeer", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuDeviceCanAccessPeer", has_device(state, device) && has_device(state, peer));
  *can =
      state.gpus[static_cast<size_t>(device)].peers && state.gpus[static_cast<size_t>(peer)].peers;
  return CUDA_SUCCESS;
}

INFER_CU cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  INFER_BEGIN("cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuDevicePrimaryCtxRetain", has_device(state, device));
  CUcontext& primary = state.contexts[device];
  if (primary == nullptr) {
    primary = state.make<CUctx_st>();
    primary->device = device;
  }
  ++primary->retained;
  *context = primary;
  return CUDA_SUCCESS;
}

INFER_CU cuDevicePrimaryCtxRelease(CUdevice device) {
  INFER_END("cuDevicePrimaryCtxRelease")
  const auto it = state.contexts.find(device);
  INFER_EXPECT(function_name, it != state.contexts.end() && it->second->retained > 0);
  const CUcontext context = it->second;
  if (--context->retained > 0) return CUDA_SUCCESS;
  const bool left = std::ranges::any_of(state.allocations,
                                        [&](const auto& a) { return a.second.context == context; });
  state.contexts.erase(it);
  state.destroy(context);
  INFER_EXPECT(function_name, !left);
  return CUDA_SUCCESS;
}

INFER_CU cuCtxSetCurrent(CUcontext context) {
  INFER_END("cuCtxSetCurrent")
  INFER_EXPECT(function_name, context == nullptr || state.is_live(context));
  current_of_thread() = context;
  return CUDA_SUCCESS;
}

INFER_CU cuMemGetInfo(size_t* free, size_t* total) {
  INFER_BEGIN_IN("cuMemGetInfo", CUDA_ERROR_UNKNOWN)
  *free = static_cast<size_t>(state.free_bytes(context->device));
  *total = static_cast<size_t>(state.gpus[static_cast<size_t>(context->device)].memory);
  return CUDA_SUCCESS;
}

INFER_CU cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  INFER_BEGIN_IN("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuMemAlloc", bytes > 0);
  if (counted(bytes) > state.free_bytes(context->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const at = undefined_memory(bytes);
  if (at == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  state.allocations[at] = {context, static_cast<int64_t>(bytes), false};
  context->allocated += counted(bytes);
  context->memory.add(at, bytes);
  *address = reinterpret_cast<CUdeviceptr>(at);
  return CUDA_SUCCESS;
}

INFER_CU cuMemFree(CUdeviceptr address) {
  INFER_END("cuMemFree")
  const auto it = state.allocations.find(reinterpret_cast<void*>(address));
  INFER_EXPECT(function_name, it != state.allocations.end() && !it->second.pinned);
  INFER_EXPECT(function_name, it->second.mapped == nullptr);
  const Allocation allocation = it->second;
  INFER_EXPECT(function_name, allocation.context == current_of_thread());
  (void)state.run_all(allocation.context);  // it waits for the device
  allocation.context->allocated -= counted(static_cast<size_t>(allocation.bytes));
  allocation.context->memory.remove(address);
  state.allocations.erase(it);
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}

INFER_CU cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  INFER_BEGIN_IN("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuMemHostAlloc", bytes > 0);
  *data = undefined_memory(bytes);
  if (*data == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  state.allocations[*data] = {context, static_cast<int64_t>(bytes), true};
  context->memory.add(*data, bytes);
  return CUDA_SUCCESS;
}

INFER_CU cuMemFreeHost(void* data) {
  INFER_END("cuMemFreeHost")
  const auto it = state.allocations.find(data);
  INFER_EXPECT(function_name, it != state.allocations.end() && it->second.pinned);
  (void)state.run_all(it->second.context);
  it->second.context->memory.remove(reinterpret_cast<uintptr_t>(data));
  state.allocations.erase(it);
  std::free(data);
  return CUDA_SUCCESS;
}

INFER_CU cuMemHostRegister(void* data, size_t bytes, unsigned flags) {
  INFER_BEGIN_IN("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuMemHostRegister", data != nullptr && bytes > 0);
  const bool reads = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
  INFER_EXPECT("cuMemHostRegister",
               (flags & ~CU_MEMHOSTREGISTER_READ_ONLY) == CU_MEMHOSTREGISTER_PORTABLE);
  const auto& gpu = state.gpus[static_cast<size_t>(context->device)];
  if (gpu.registers_nothing || (gpu.registers_read_only && !reads)) {
    return state.refuse(CUDA_ERROR_NOT_PERMITTED);
  }
  const bool known = std::ranges::any_of(state.registered, [&](const auto& other) {
    return other.first<static_cast<std::byte*>(data) +
                       bytes&& static_cast<const std::byte*>(other.first) + other.second.bytes>
        data;
  });
  if (known) return state.refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  state.registered[data] = {context, static_cast<int64_t>(bytes), true};
  return CUDA_SUCCESS;
}

INFER_CU cuMemHostUnregister(void* data) {
  INFER_END("cuMemHostUnregister")
  const auto it = state.registered.find(data);
  INFER_EXPECT(function_name, it != state.registered.end());
  INFER_EXPECT(function_name, it->second.context == current_of_thread());
  (void)state.run_all(it->second.context);
  state.registered.erase(it);
  return CUDA_SUCCESS;
}

INFER_CU cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  constexpr const char* kName = "cuMemcpyHtoDAsync";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  const auto bytes = static_cast<int64_t>(size);
  void* const target = reinterpret_cast<void*>(to);
  const Allocation* const memory = state.find(target, bytes);
  INFER_EXPECT(kName, memory != nullptr && !memory->pinned && memory->context == context);
  INFER_EXPECT(kName, !state.pinned_in_part(from, bytes));
  const auto work = [&state, target, from, bytes] {
    return state.copy(kName, target, from, bytes);
  };
  const CUresult added = add_work(state, kName, stream, work);
  // What is not pinned has been taken when the call returns.
  if (added != CUDA_SUCCESS || state.is_pinned(from, bytes)) return added;
  return state.run(stream);
}

INFER_CU cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  constexpr const char* kName = "cuMemcpyDtoHAsync";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  const auto bytes = static_cast<int64_t>(size);
  const void* const source = reinterpret_cast<const void*>(from);
  const Allocation* const memory = state.find(source, bytes);
  INFER_EXPECT(kName, memory != nullptr && !memory->pinned && memory->context == context);
  return add_work(state, kName, stream,
                  [&state, to, source, bytes] { return state.copy(kName, to, source, bytes); });
}

INFER_CU cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  constexpr const char* kName = "cuMemcpyDtoDAsync";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  const auto bytes = static_cast<int64_t>(size);
  void* const target = reinterpret_cast<void*>(to);
  const void* const source = reinterpret_cast<const void*>(from);
  INFER_EXPECT(kName, state.find(target, bytes) != nullptr);
  INFER_EXPECT(kName, state.find(source, bytes) != nullptr);
  INFER_EXPECT(kName, to + size <= from || from + size <= to);
  return add_work(state, kName, stream, [&state, target, source, bytes] {
    return state.copy(kName, target, source, bytes);
  });
}

INFER_CU cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t size, CUstream stream) {
  constexpr const char* kName = "cuMemcpyPeerAsync";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  const auto bytes = static_cast<int64_t>(size);
  void* const target = reinterpret_cast<void*>(to);
  const void* const source = reinterpret_cast<const void*>(from);
  INFER_EXPECT(kName, state.is_live(to_context) && state.is_live(from_context));
  const Allocation* const there = state.find(target, bytes);
  const Allocation* const here = state.find(source, bytes);
  INFER_EXPECT(kName, there != nullptr && !there->pinned && there->context == to_context);
  INFER_EXPECT(kName, here != nullptr && !here->pinned && here->context == from_context);
  // Nothing orders it after work of the other device.
  INFER_EXPECT(kName, state.is_idle(from_context));
  state.count_peer_copy();
  return add_work(state, kName, stream, [&state, target, source, bytes] {
    return state.copy(kName, target, source, bytes);
  });
}

INFER_CU cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  constexpr const char* kName = "cuMemsetD32Async";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  auto* const target = reinterpret_cast<uint32_t*>(to);
  INFER_EXPECT(kName, to % sizeof(uint32_t) == 0);
  INFER_EXPECT(kName,
               state.find(target, static_cast<int64_t>(count * sizeof(uint32_t))) != nullptr);
  return add_work(state, kName, stream, [target, value, count] {
    std::fill_n(target, count, value);
    return CUDA_SUCCESS;
  });
}

INFER_CU cuStreamCreate(CUstream* stream, unsigned) {
  INFER_BEGIN_IN("cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY)
  *stream = state.make<CUstream_st>();
  (*stream)->context = context;
  state.streams.insert(*stream);
  return CUDA_SUCCESS;
}

INFER_CU cuStreamDestroy(CUstream stream) {
  INFER_END("cuStreamDestroy")
  INFER_EXPECT(function_name, state.streams.contains(stream));
  (void)state.run(stream);
  state.streams.erase(stream);
  state.destroy(stream);
  return CUDA_SUCCESS;
}

INFER_CU cuStreamSynchronize(CUstream stream) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const CUresult begun = state.begin("cuStreamSynchronize", CUDA_ERROR_LAUNCH_FAILED);
  INFER_EXPECT("cuStreamSynchronize", state.streams.contains(stream));
  const CUresult done = state.run(stream);
  return begun != CUDA_SUCCESS ? begun : done;
}

INFER_CU cuEventCreate(CUevent* event, unsigned flags) {
  INFER_BEGIN_IN("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY)
  *event = state.make<CUevent_st>();
  (*event)->context = context;
  (*event)->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  return CUDA_SUCCESS;
}

INFER_CU cuEventDestroy(CUevent event) {
  INFER_END("cuEventDestroy")
  INFER_EXPECT(function_name, state.is_live(event));
  if (event->pending && state.streams.contains(event->stream)) (void)state.run(event->stream);
  state.destroy(event);
  return CUDA_SUCCESS;
}

INFER_CU cuEventRecord(CUevent event, CUstream stream) {
  INFER_BEGIN_IN("cuEventRecord", CUDA_ERROR_LAUNCH_FAILED)
  INFER_EXPECT("cuEventRecord", state.is_live(event) && event->context == context);
  event->pending = true;
  event->stream = stream;
  event->reached = std::make_shared<bool>(false);
  return add_work(state, "cuEventRecord", stream, [event, reached = event->reached] {
    *reached = true;
    if (event->reached == reached) event->pending = false;  // it was not recorded again
    event->time_ns = now_ns();
    return CUDA_SUCCESS;
  });
}

INFER_CU cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  constexpr const char* kName = "cuStreamWaitEvent";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  INFER_EXPECT(kName, flags == CU_EVENT_WAIT_DEFAULT);
  INFER_EXPECT(kName, state.is_live(event) && event->context == context);
  if (!event->pending) return CUDA_SUCCESS;
  // The other stream goes on as far as the event, and no further.
  return add_work(state, kName, stream, [&state, other = event->stream, reached = event->reached] {
    CUresult result = CUDA_SUCCESS;
    while (!*reached && result == CUDA_SUCCESS) result = state.run_one(other);
    return result;
  });
}

INFER_CU cuEventSynchronize(CUevent event) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const CUresult begun = state.begin("cuEventSynchronize", CUDA_ERROR_LAUNCH_FAILED);
  INFER_EXPECT("cuEventSynchronize", state.is_live(event));
  const CUresult done = event->pending ? state.run(event->stream) : event->context->fault;
  return begun != CUDA_SUCCESS ? begun : done;
}

INFER_CU cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  INFER_BEGIN_IN("cuEventElapsedTime", CUDA_ERROR_UNKNOWN)
  for (const CUevent event : {start, end}) {
    INFER_EXPECT("cuEventElapsedTime", state.is_live(event) && event->timed && !event->pending);
  }
  *milliseconds = static_cast<float>(end->time_ns - start->time_ns) * 1e-6f;
  return CUDA_SUCCESS;
}
