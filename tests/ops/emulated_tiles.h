// The tiles of AMX in plain code, in the place of backends/cpu/simd/avx512/amx.h: what its
// instructions do by Intel's Software Developer's Manual, volume 2. A wrong use ends the program.
// Compiled with the flags of an instruction set, so without the standard library's templates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace infer::cpu {
namespace {

struct TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  uint8_t bytes[16][64] = {};
};

thread_local bool tiles_begun = false;
thread_local Tile all_tiles[8];

struct Tiles {
  static void begin(const TileShapes& shapes) {
    expect(!tiles_begun && shapes.palette == 1 && shapes.start_row == 0);
    tiles_begun = true;
    for (int i = 0; i < 8; ++i) {
      expect(shapes.rows[i] <= 16 && shapes.row_bytes[i] <= 64 && shapes.row_bytes[i] % 4 == 0);
      all_tiles[i] = {shapes.rows[i], shapes.row_bytes[i], {}};
    }
  }
  static void end() {
    expect(tiles_begun);
    tiles_begun = false;
  }

  template <int kTile>
  static void load(const void* from, int64_t pitch) {
    Tile& tile = used(kTile);
    for (int r = 0; r < tile.rows; ++r) {
      __builtin_memcpy(tile.bytes[r], static_cast<const std::byte*>(from) + r * pitch,
                       static_cast<size_t>(tile.row_bytes));
    }
  }
  template <int kTile>
  static void store(void* to, int64_t pitch) {
    const Tile& tile = used(kTile);
    for (int r = 0; r < tile.rows; ++r) {
      __builtin_memcpy(static_cast<std::byte*>(to) + r * pitch, tile.bytes[r],
                       static_cast<size_t>(tile.row_bytes));
    }
  }
  template <int kTile>
  static void zero() {
    Tile& tile = used(kTile);
    __builtin_memset(tile.bytes, 0, sizeof(tile.bytes));
  }
  template <int kSums, int kA, int kB, bool kSigned>
  static void multiply() {
    Tile& sums = used(kSums);
    const Tile& a = used(kA);
    const Tile& b = used(kB);
    expect(a.rows == sums.rows && a.row_bytes == 4 * b.rows && b.row_bytes == sums.row_bytes);
    for (int m = 0; m < sums.rows; ++m) {
      for (int n = 0; n < sums.row_bytes / 4; ++n) {
        int32_t sum;
        __builtin_memcpy(&sum, sums.bytes[m] + 4 * n, sizeof(sum));
        for (int k = 0; k < a.row_bytes; ++k) {
          const uint8_t byte = b.bytes[k / 4][4 * n + k % 4];
          sum += static_cast<int8_t>(a.bytes[m][k]) *
                 (kSigned ? int32_t{static_cast<int8_t>(byte)} : int32_t{byte});
        }
        __builtin_memcpy(sums.bytes[m] + 4 * n, &sum, sizeof(sum));
      }
    }
  }

 private:
  static Tile& used(int tile) {
    expect(tiles_begun && all_tiles[tile].rows > 0);
    return all_tiles[tile];
  }
};

}  // namespace
}  // namespace infer::cpu
