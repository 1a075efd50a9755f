// backends/cuda/device/bulk_copy.h for the emulator. Copies are done when somebody waits for them.
#pragma once

#include "tests/cuda/emulator/device.h"

namespace infer::cuda {

inline bool is_elected() { return lane() == 0; }
inline void bulk_barrier(const SharedPtr<uint64_t>& barrier) {
  emu::bulk_barrier(barrier.address(0, 1));
}
inline void bulk_expect(const SharedPtr<uint64_t>& barrier, uint32_t bytes) {
  emu::bulk_expect(barrier.address(0, 1), bytes);
}
template <typename S, typename T>
void bulk_copy(const SharedPtr<S>& to, int64_t i, const Global<T>& from, int64_t j, uint32_t bytes,
               const SharedPtr<uint64_t>& barrier) {
  std::byte* const at = to.address(i, static_cast<int64_t>(bytes / sizeof(S)));
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(at) % 16 != 0) {
    emu::fault("a misaligned copy of many bytes");
  }
  emu::bulk_copy(at, from.checked(j, bytes, 16), bytes, barrier.address(0, 1));
}
inline void bulk_wait(const SharedPtr<uint64_t>& barrier, uint32_t parity) {
  emu::bulk_wait(barrier.address(0, 1), parity);
}

}  // namespace infer::cuda
