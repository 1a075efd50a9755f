// The tiles of AMX: eight matrices of up to 16 rows of 64 bytes (Intel, Software Developer's
// Manual, volume 1, chapter 18). Written as assembly, because the compilers' functions say nothing
// of the memory that they read and write. The unit needs no flag for it; the processor and the
// system have to allow it (isa_runs_here).
#pragma once

#include <cstddef>
#include <cstdint>

namespace infer::cpu {
namespace {

/// The operand of LDTILECFG.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

struct Tiles {
  static void begin(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  static void end() { asm volatile("tilerelease"); }

  /// Rows are a pitch apart, in bytes.
  template <int kTile>
  [[gnu::always_inline]] static void load(const void* from, int64_t pitch) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(pitch), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void store(void* to, int64_t pitch) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(pitch), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// sums[m][n] += Σ a[m][4k + i] · b[k][4n + i] over k and i; a is of signed bytes, b of signed or
  /// unsigned ones.
  template <int kSums, int kA, int kB, bool kSigned>
  [[gnu::always_inline]] static void multiply() {
    if constexpr (kSigned) {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
    } else {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
    }
  }
};

}  // namespace
}  // namespace infer::cpu
