// Copies of many bytes from memory into shared memory (PTX ISA, "cp.async.bulk"; compute capability
// 9.0), and barriers in shared memory that count what has come ("mbarrier"). A thread says how many
// bytes it expects, and the copies of any threads bring them: then the barrier's phase ends, and
// what was copied is there for who has waited for that, also for products of warpgroups.
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/memory.h"

namespace infer::cuda {

#if __CUDA_ARCH__ >= 900

/// True in one lane of the warp, the same one each time. The compiler knows that it is one.
INFER_DEVICE bool is_elected() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }"
               : "=r"(elected)::"memory");
  return elected != 0;
}
/// Makes a barrier. One thread does, before a barrier of the block.
INFER_DEVICE void bulk_barrier(SharedPtr<uint64_t> barrier) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "fence.mbarrier_init.release.cluster;" ::"r"(at)
      : "memory");
}
/// The phase that runs ends when so many bytes have come. Once a phase.
INFER_DEVICE void bulk_expect(SharedPtr<uint64_t> barrier, uint32_t bytes) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
/// Copies `bytes` bytes, which are, as both addresses, a multiple of 16.
template <typename S, typename T>
INFER_DEVICE void bulk_copy(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j,
                            uint32_t bytes, SharedPtr<uint64_t> barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to + i))),
      "l"(from.pointer(j)), "r"(bytes),
      "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier)))
      : "memory");
}
/// Waits for the end of a phase: the first one has parity 0, the next 1, and so on in turns.
INFER_DEVICE void bulk_wait(SharedPtr<uint64_t> barrier, uint32_t parity) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra AGAIN;\n"
      "}" ::"r"(at),
      "r"(parity)
      : "memory");
}

#endif

}  // namespace infer::cuda

#endif
