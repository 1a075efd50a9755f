// The scans of recurrent layers: op::DeltaScan and op::SsmScan.
#pragma once

#include <cstdint>

#include "backends/gpu/push.h"

namespace infer::cuda {

inline constexpr uint32_t kScanColumns = 64;  ///< of a block: engine/graph/kv_geometry.h
inline constexpr uint32_t kScanPad = 16;      ///< likewise
inline constexpr uint32_t kScanParts = 4;     ///< threads of a column
inline constexpr int kScanThreads = kScanColumns * kScanParts;

/// Grid: blocks of columns, heads, blocks that share the sequences.
struct ScanParams {
  uint64_t step, write, read, v, y, slots, sequences;
  /// By head, or of its channels; by element size of each column, a of each element of S.
  uint64_t size, a, bias;
  uint64_t gain;  ///< of op::DeltaScan; 0: what is written is not corrected
  uint64_t pass;  ///< by head, by element for each column; 0: none
  gpu::StridePush write_strides, read_strides, v_strides, y_strides, size_strides, gain_strides;
  uint32_t size_width, gain_width;  ///< heads that are beside each other along d0
  uint32_t rows, columns;           ///< of the matrix of a head
  uint32_t heads, keys;             ///< of v; of what is written and read
  uint32_t tiled;                   ///< 1: as in op::DeltaScan
  uint32_t kind;                    ///< of pages
  uint32_t offset;                  ///< of the state of head 0, in bytes
  float write_scale, read_scale;
  uint32_t sharing;  ///< blocks along z
  float bound;       ///< as in op::DeltaScan
  float slope;       ///< as in op::SsmScan: then there are no size, a, bias and pass
};
static_assert(sizeof(ScanParams) == 200);

}  // namespace infer::cuda
