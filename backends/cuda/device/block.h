// The threads of a block, and its shared memory. Kernels use nothing else of CUDA's built-in names,
// and get shared memory only here: the emulator (tests/cuda/emulator/device.h) has the same
// functions and checks what kernels do.
//
// Blocks are one-dimensional, of whole warps. All threads of a block reach each sync_block(), and
// all lanes of a warp each operation of the warp.
#pragma once

#ifndef INFER_CUDA_EMULATED

#include <cstdint>

/// Joins two names, macros expanded.
#define INFER_JOIN_(a, b) a##b
#define INFER_JOIN(a, b) INFER_JOIN_(a, b)
#define INFER_DEVICE __device__ __forceinline__

/// A kernel of this name with one parameter `p`. `most_threads`: of a block. `blocks`: that a
/// multiprocessor should be able to hold at once. It may begin while the kernel that it follows
/// still runs (program.cpp), and waits for that one first.
#define INFER_KERNEL(name, Params, most_threads, blocks) \
  INFER_KERNEL_AHEAD(name, Params, most_threads, blocks, [](const Params&) {})
/// The same; before it waits, it calls `ahead(p)`, which may only ask for what no kernel writes.
#define INFER_KERNEL_AHEAD(name, Params, most_threads, blocks, ahead) \
  INFER_KERNEL_OF(name, Params, most_threads, blocks, ahead)
/// The same; it calls wait_for_last() itself, and before only reads what no kernel writes.
#define INFER_KERNEL_THAT_WAITS(name, Params, most_threads, blocks)  \
  INFER_DEVICE void INFER_JOIN(name, _body)(const Params& p);        \
  extern "C" __global__ void __launch_bounds__(most_threads, blocks) \
      name(const __grid_constant__ Params p) {                       \
    ::infer::cuda::let_next_begin();                                 \
    INFER_JOIN(name, _body)(p);                                      \
  }                                                                  \
  INFER_DEVICE void INFER_JOIN(name, _body)(const Params& p)
#define INFER_KERNEL_OF(name, Params, most_threads, blocks, ahead)   \
  INFER_DEVICE void name##_body(const Params& p);                    \
  extern "C" __global__ void __launch_bounds__(most_threads, blocks) \
      name(const __grid_constant__ Params p) {                       \
    ::infer::cuda::let_next_begin();                                 \
    ahead(p);                                                        \
    ::infer::cuda::wait_for_last();                                  \
    name##_body(p);                                                  \
  }                                                                  \
  INFER_DEVICE void name##_body(const Params& p)

namespace infer::cuda {

/// A number that is known when code is compiled.
template <uint32_t kNumber>
struct Constant {
  static constexpr uint32_t kValue = kNumber;
};

/// Whether kernels can begin before the one that they follow has ended.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kBeginsEarly = true;
#else
inline constexpr bool kBeginsEarly = false;
#endif
/// The kernel that follows may begin once all blocks of this one have called this.
INFER_DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/// Waits until the kernel before has ended, and what it wrote can be read.
INFER_DEVICE void wait_for_last() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

INFER_DEVICE uint32_t thread() { return threadIdx.x; }
INFER_DEVICE uint32_t threads() { return blockDim.x; }
INFER_DEVICE uint32_t lane() { return threadIdx.x % 32; }
INFER_DEVICE uint32_t warp() { return threadIdx.x / 32; }
INFER_DEVICE uint32_t block_x() { return blockIdx.x; }
INFER_DEVICE uint32_t block_y() { return blockIdx.y; }
INFER_DEVICE uint32_t block_z() { return blockIdx.z; }
INFER_DEVICE uint32_t grid_x() { return gridDim.x; }
INFER_DEVICE uint32_t grid_y() { return gridDim.y; }

INFER_DEVICE void sync_block() { __syncthreads(); }
/// Barrier `id` (1 to 15) of `count` threads: of whole warps, the same ones each time.
INFER_DEVICE void sync_named(uint32_t id, uint32_t count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}
INFER_DEVICE void sync_warp() { __syncwarp(); }

constexpr uint32_t kAllLanes = 0xffffffffu;
template <typename T>
INFER_DEVICE T shuffle(T value, uint32_t from) {
  return __shfl_sync(kAllLanes, value, from);
}
template <typename T>
INFER_DEVICE T shuffle_xor(T value, uint32_t mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
INFER_DEVICE uint32_t ballot(bool value) { return __ballot_sync(kAllLanes, value); }

/// A place in an array in shared memory.
template <typename T>
using SharedPtr = T*;

/// An array in shared memory with nothing in it.
#define INFER_SHARED(type, name, count) __shared__ alignas(16) type name[count]

extern __shared__ uint4 infer_dynamic_shared[];
/// `count` elements of the launch's dynamic shared memory, from byte `offset` on.
template <typename T>
INFER_DEVICE SharedPtr<T> dynamic_shared(uint32_t offset, uint32_t) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(infer_dynamic_shared) + offset);
}

/// A vector (uint4, float2, …) at element i, a multiple of its size from the array's begin.
template <typename V, typename T>
INFER_DEVICE V load_shared(SharedPtr<T> from, int64_t i) {
  return *reinterpret_cast<const V*>(from + i);
}
template <typename V, typename T>
INFER_DEVICE void store_shared(SharedPtr<T> to, int64_t i, const V& value) {
  *reinterpret_cast<V*>(to + i) = value;
}

/// The same value. The compiler has it in a register from here on, and does not compute it again.
INFER_DEVICE uint32_t kept(uint32_t value) { return shuffle(value, lane()); }
template <typename T>
INFER_DEVICE SharedPtr<T> kept(SharedPtr<T> at) {
  const auto address = kept(static_cast<uint32_t>(__cvta_generic_to_shared(at)));
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

/// Returns the value before.
INFER_DEVICE uint32_t atomic_add(SharedPtr<uint32_t> to, int64_t i, uint32_t value) {
  return atomicAdd(to + i, value);
}

}  // namespace infer::cuda

#endif
