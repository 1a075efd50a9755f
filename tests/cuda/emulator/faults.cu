#include "tests/cuda/emulator/faults.h"

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/math.h"
#include "backends/cuda/device/mma.h"

namespace infer::cuda {

// Each value becomes that of the thread 33 further.
INFER_KERNEL(rotate, FaultParams, 128, 1) {
  INFER_SHARED(float, values, 128);
  const uint32_t t = thread();
  if (p.wrong != kUnwritten || t != 5) {
    values[p.wrong == kSharedIndex && t == 7 ? 128 : t] = Global<const float>(p.x)[t];
  }
  if (p.wrong == kDivergentBarrier) {
    if (t < 64) sync_block();
  } else if (p.wrong != kNoBarrier) {
    sync_block();
  }
  const float other = values[(t + 33) % 128];
  Global<float>(p.y)[p.wrong == kGlobalIndex && t == 127 ? 128 : t] = other;
}

// Neighbours within a warp, by shared memory.
INFER_KERNEL(rotate_warp, FaultParams, 64, 1) {
  INFER_SHARED(float, values, 64);
  const uint32_t t = thread();
  values[t] = Global<const float>(p.x)[t];
  if (p.wrong != kNoWarpBarrier) sync_warp();
  Global<float>(p.y)[t] = values[t / 32 * 32 + (t + 1) % 32];
}

// Sums over a warp, and who has an odd value.
INFER_KERNEL(warp_sums, FaultParams, 64, 1) {
  const uint32_t t = thread();
  const auto own = static_cast<uint32_t>(Global<const float>(p.x)[t]);
  uint32_t sum = own;
  if (p.wrong != kDivergentShuffle || lane() < 16) {
    for (uint32_t other = 16; other > 0; other /= 2) sum += shuffle_xor(sum, other);
  }
  const uint32_t odd = ballot(own % 2 != 0);
  Global<float>(p.y)[t] = static_cast<float>(sum + bits_set(odd) + shuffle(own, 3));
}

// Two named barriers, each of half of the block.
INFER_KERNEL(halves, FaultParams, 128, 1) {
  INFER_SHARED(float, values, 128);
  const uint32_t t = thread();
  const uint32_t half = t / 64;
  values[t] = Global<const float>(p.x)[t];
  if (p.wrong == kNothing) sync_named(1 + half, 64);
  Global<float>(p.y)[t] = values[half * 64 + (t + 40) % 64];
}

INFER_KERNEL(copies, FaultParams, 32, 1) {
  INFER_SHARED(float, values, 256);
  const uint32_t t = thread();
  const Global<const float> x(p.x);
  async_copy_16(values, 4 * t, x, 4 * t);
  async_commit();
  async_copy_16(values, 128 + 4 * t, x, 128 + 4 * t);
  async_commit();
  if (p.wrong != kNoWait) async_wait<1>();
  if (p.wrong != kNoBarrierAfterWait) sync_block();
  const float first = values[(4 * t + 40) % 128];
  async_wait<0>();
  sync_block();
  Global<float>(p.y)[t] = first + values[128 + (4 * t + 40) % 128];
}

INFER_DEVICE void ahead_of_doubles(const FaultParams& p) {
  const Global<const float> x(p.x);
  ask_for(x, p.wrong == kEarlyAsk ? 256 : thread(), 4);
  if (p.wrong == kEarlyRead && x[thread()] > 1e9f) sync_block();
}
INFER_KERNEL_AHEAD(doubles, FaultParams, 64, 1, ahead_of_doubles) {
  Global<float>(p.y)[thread()] = 2.0f * Global<const float>(p.x)[thread()];
}

INFER_KERNEL(count, FaultParams, 64, 1) {
  INFER_SHARED(uint32_t, counts, 4);
  if (thread() < 4) counts[thread()] = 0u;
  sync_block();
  atomic_add(counts, thread() % 4, 1);
  sync_block();
  if (thread() == 0) atomic_add(Global<uint32_t>(p.y), 0, counts[0] + counts[3]);
}

template <typename C, uint32_t kA, uint32_t kB, typename Mma>
INFER_DEVICE void run_mma(const MmaParams& p, Mma mma) {
  uint32_t a[kA];
  uint32_t b[kB];
  C c[4];
  C d[4];
  for (uint32_t i = 0; i < kA; ++i) a[i] = Global<const uint32_t>(p.a)[lane() * kA + i];
  for (uint32_t i = 0; i < kB; ++i) b[i] = Global<const uint32_t>(p.b)[lane() * kB + i];
  for (uint32_t i = 0; i < 4; ++i) c[i] = Global<const C>(p.c)[lane() * 4 + i];
  mma(d, a, b, c);
  for (uint32_t i = 0; i < 4; ++i) Global<C>(p.d)[lane() * 4 + i] = d[i];
}

INFER_KERNEL(mma_32, MmaParams, 32, 1) {
  run_mma<int32_t, 4, 2>(p, [](auto& d, auto& a, auto& b, auto& c) { mma_s8(d, a, b, c); });
}
INFER_KERNEL(mma_16, MmaParams, 32, 1) {
  run_mma<int32_t, 2, 1>(p, [](auto& d, auto& a, auto& b, auto& c) { mma_u8(d, a, b, c); });
}
INFER_KERNEL(mma_half, MmaParams, 32, 1) {
  run_mma<float, 4, 2>(p, [](auto& d, auto& a, auto& b, auto& c) { mma_f16(d, a, b, c); });
}

// Four matrices, as they are and turned. a: [row][4], lane l names row l; d: [2][lane][4].
INFER_KERNEL(matrices, MmaParams, 32, 1) {
  INFER_SHARED(uint32_t, rows, 128);
  for (uint32_t i = 0; i < 4; ++i) {
    rows[lane() * 4 + i] = Global<const uint32_t>(p.a)[lane() * 4 + i];
  }
  sync_warp();
  uint32_t plain[4];
  uint32_t turned[4];
  load_matrices(plain, SharedPtr<uint32_t>(rows), lane() * 4);
  load_turned_matrices(turned, SharedPtr<uint32_t>(rows), lane() * 4);
  for (uint32_t i = 0; i < 4; ++i) {
    Global<uint32_t>(p.d)[lane() * 4 + i] = plain[i];
    Global<uint32_t>(p.d)[128 + lane() * 4 + i] = turned[i];
  }
}

}  // namespace infer::cuda
