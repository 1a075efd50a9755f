// Asynchronous copies from memory into shared memory (PTX cp.async; sm_80 and later, at once on
// sm_75: there also written as assembly, because nvcc 13.0 does not end with plain accesses).
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/memory.h"

namespace infer::cuda {

/// Copies 16 bytes. Both addresses are multiples of 16. The bytes are there for the thread once it
/// has waited for their group, and for the others after a barrier that follows.
template <typename S, typename T>
INFER_DEVICE void async_copy_16(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to + i));
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from.pointer(j))
               : "memory");
#else
  asm volatile(
      "{ .reg .b32 a, b, c, d; ld.global.v4.b32 {a, b, c, d}, [%1];"
      " st.shared.v4.b32 [%0], {a, b, c, d}; }" ::"r"(at),
      "l"(from.pointer(j))
      : "memory");
#endif
}
/// The same of what no kernel of the step writes, also before wait_for_last().
template <typename S, typename T>
INFER_DEVICE void async_copy_constant_16(SharedPtr<S> to, int64_t i, const Global<T>& from,
                                         int64_t j) {
  async_copy_16(to, i, from, j);
}
/// The same of 8 bytes, at multiples of 8.
template <typename S, typename T>
INFER_DEVICE void async_copy_8(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to + i));
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from.pointer(j))
               : "memory");
#else
  asm volatile(
      "{ .reg .b32 a, b; ld.global.v2.b32 {a, b}, [%1]; st.shared.v2.b32 [%0], {a, b}; }" ::"r"(at),
      "l"(from.pointer(j))
      : "memory");
#endif
}
/// The copies since the last commit are a group.
INFER_DEVICE void async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most this many groups are under way.
template <uint32_t kPending>
INFER_DEVICE void async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace infer::cuda

#endif
