// Asynchronous copies from memory into shared memory (PTX cp.async; sm_80 and later, at once on
// sm_75).
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/memory.h"

namespace infer::cuda {

/// Copies 16 bytes. Both addresses are multiples of 16. The bytes are there for the thread once it
/// has waited for their group, and for the others after a barrier that follows.
template <typename S, typename T>
INFER_DEVICE void async_copy_16(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to + i));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from.pointer(j))
               : "memory");
#else
  store_shared<uint4>(to, i, load_as<uint4>(from, j));
#endif
}
/// The same of 8 bytes, at multiples of 8.
template <typename S, typename T>
INFER_DEVICE void async_copy_8(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to + i));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from.pointer(j))
               : "memory");
#else
  store_shared<uint2>(to, i, load_as<uint2>(from, j));
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
