// Reserved addresses and physical memory that is mapped there.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/driver/api.h"

using infer::test::kGranule;
using infer::test::Physical;
using infer::test::State;

namespace {

bool whole_granules(size_t bytes) { return bytes > 0 && bytes % kGranule == 0; }

/// Whether any memory is mapped in a range.
bool has_mapped(const State& state, const std::byte* begin, size_t bytes) {
  return std::ranges::any_of(state.allocations, [&](const auto& entry) {
    const auto* const at = static_cast<const std::byte*>(entry.first);
    return at < begin + bytes && at + entry.second.bytes > begin;
  });
}

/// Whether a range was reserved.
bool is_reserved(const State& state, const std::byte* begin, size_t bytes) {
  return std::ranges::any_of(state.reserved, [&](const auto& entry) {
    const auto* const at = static_cast<const std::byte*>(entry.first);
    return at <= begin && begin + bytes <= at + entry.second;
  });
}

}  // namespace

INFER_CU cuMemGetAllocationGranularity(size_t* granule, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  constexpr const char* kName = "cuMemGetAllocationGranularity";
  INFER_BEGIN(kName, CUDA_ERROR_UNKNOWN)
  INFER_EXPECT(kName, properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  *granule = static_cast<size_t>(kGranule);
  return CUDA_SUCCESS;
}

INFER_CU cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr fixed,
                             unsigned long long flags) {
  constexpr const char* kName = "cuMemAddressReserve";
  INFER_BEGIN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT(kName, whole_granules(bytes) && fixed == 0 && flags == 0);
  // As much more as beginning at a granule takes.
  const size_t more = bytes + static_cast<size_t>(kGranule);
  void* const made =
      mmap(nullptr, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = reinterpret_cast<uintptr_t>(made);
  const uintptr_t aligned = (begin + kGranule - 1) / kGranule * kGranule;
  if (aligned > begin) munmap(made, aligned - begin);
  if (const size_t behind = begin + more - (aligned + bytes); behind > 0) {
    munmap(reinterpret_cast<void*>(aligned + bytes), behind);
  }
  state.reserved[reinterpret_cast<const void*>(aligned)] = static_cast<int64_t>(bytes);
  *address = aligned;
  return CUDA_SUCCESS;
}

INFER_CU cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  INFER_END("cuMemAddressFree")
  auto* const at = reinterpret_cast<std::byte*>(address);
  const auto it = state.reserved.find(at);
  INFER_EXPECT(function_name, it != state.reserved.end());
  INFER_EXPECT(function_name, it->second == static_cast<int64_t>(bytes));
  INFER_EXPECT(function_name, !has_mapped(state, at, bytes));
  state.reserved.erase(it);
  munmap(at, bytes);
  return CUDA_SUCCESS;
}

INFER_CU cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  constexpr const char* kName = "cuMemCreate";
  INFER_BEGIN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT(kName, whole_granules(bytes) && flags == 0);
  INFER_EXPECT(kName, properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
  const auto context = state.contexts.find(properties->location.id);
  INFER_EXPECT(kName, context != state.contexts.end());
  const auto size = static_cast<int64_t>(bytes);
  if (size > state.free_bytes(context->first)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* const made = state.make<Physical>();
  made->context = context->second;
  made->bytes = size;
  made->context->allocated += size;
  *handle = reinterpret_cast<uintptr_t>(made);
  return CUDA_SUCCESS;
}

INFER_CU cuMemRelease(CUmemGenericAllocationHandle handle) {
  INFER_END("cuMemRelease")
  auto* const memory = reinterpret_cast<Physical*>(handle);
  INFER_EXPECT(function_name, state.is_live(memory) && !memory->mapped);
  memory->context->allocated -= memory->bytes;
  state.destroy(memory);
  return CUDA_SUCCESS;
}

INFER_CU cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  constexpr const char* kName = "cuMemMap";
  INFER_BEGIN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  auto* const at = reinterpret_cast<std::byte*>(address);
  auto* const memory = reinterpret_cast<Physical*>(handle);
  INFER_EXPECT(kName, state.is_live(memory) && !memory->mapped);
  INFER_EXPECT(kName, memory->bytes == static_cast<int64_t>(bytes) && offset == 0 && flags == 0);
  INFER_EXPECT(kName, address % kGranule == 0 && is_reserved(state, at, bytes));
  INFER_EXPECT(kName, !has_mapped(state, at, bytes));
  if (state.gpus[static_cast<size_t>(memory->context->device)].refuses_mapping) {
    return state.refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  memory->mapped = true;
  state.allocations[at] = {memory->context, memory->bytes, false, memory};
  return CUDA_SUCCESS;
}

INFER_CU cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  constexpr const char* kName = "cuMemSetAccess";
  INFER_BEGIN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  auto* const at = reinterpret_cast<std::byte*>(address);
  const auto mapped = state.allocations.find(at);
  INFER_EXPECT(kName, mapped != state.allocations.end() && mapped->second.mapped != nullptr);
  INFER_EXPECT(kName, mapped->second.bytes == static_cast<int64_t>(bytes));
  const CUcontext owner = mapped->second.context;
  bool own = false;
  for (size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    INFER_EXPECT(kName, device >= 0 && static_cast<size_t>(device) < state.gpus.size());
    const auto& gpus = state.gpus;
    const bool reaches =
        gpus[static_cast<size_t>(device)].peers && gpus[static_cast<size_t>(owner->device)].peers;
    INFER_EXPECT(kName, device == owner->device || reaches);
    own |= device == owner->device;
  }
  INFER_EXPECT(kName, own);
  if (count > 1 && state.gpus[static_cast<size_t>(owner->device)].refuses_peers) {
    return state.refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool untouched = state.gpus[static_cast<size_t>(owner->device)].untouched;
  if (!untouched) std::memset(at, 0xff, bytes);  // NaN in every type of floating point
  owner->memory.add_mapped(reinterpret_cast<uintptr_t>(at), bytes);
  return CUDA_SUCCESS;
}

INFER_CU cuMemUnmap(CUdeviceptr address, size_t bytes) {
  INFER_END("cuMemUnmap")
  auto* const at = reinterpret_cast<std::byte*>(address);
  const auto mapped = state.allocations.find(at);
  INFER_EXPECT(function_name, mapped != state.allocations.end());
  const infer::test::Allocation allocation = mapped->second;
  INFER_EXPECT(function_name, allocation.mapped != nullptr);
  INFER_EXPECT(function_name, allocation.bytes == static_cast<int64_t>(bytes));
  INFER_EXPECT(function_name, state.is_idle(allocation.context));
  allocation.mapped->mapped = false;
  allocation.context->memory.remove(address);
  state.allocations.erase(mapped);
  mprotect(at, bytes, PROT_NONE);
  madvise(at, bytes, MADV_DONTNEED);
  return CUDA_SUCCESS;
}
