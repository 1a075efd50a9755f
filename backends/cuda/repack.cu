#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"
#include "backends/cuda/repack_cell.h"
#include "backends/gpu/repack.h"

namespace infer::cuda {

using gpu::kRepackThreads;
using gpu::RepackParams;

INFER_DEVICE uint32_t turned_left(uint32_t value, uint32_t bits) {
  return value << bits | value >> ((32 - bits) & 31);
}

INFER_KERNEL(repack, RepackParams, kRepackThreads, 8) {
  INFER_SHARED(uint32_t, cell, kCellWords);
  const gpu::RepackShape& s = p.shape;
  const uint32_t block = block_x();
  const uint32_t group = p.first_group + block_y();
  const uint32_t matrix = group / s.matrix_groups;
  const uint32_t first_row = group % s.matrix_groups * s.cell_rows;
  const uint32_t host_group = first_row / s.host_rows;
  const uint32_t row = first_row % s.host_rows;
  const uint32_t host_block = block * s.stored_blocks;
  const uint64_t from = p.from + matrix * s.matrix_bytes + host_group * s.group_bytes +
                        uint64_t{host_block} * s.host_block_bytes;
  const Global<const uint2> sources(s.cells);
  for (uint32_t w = thread(); w < s.cell_words; w += kRepackThreads) {
    const uint2 source = sources[w];
    const uint32_t unit = source.y & 0xffff;
    const uint32_t further = source.y >> 16 & 0xff;
    const uint32_t stored = source.y >> 24;
    uint32_t value = 0;
    if (host_group + further < s.host_groups && host_block + stored < s.host_blocks) {
      value = Global<const uint32_t>(from + further * s.group_bytes + source.x + row * unit)[0];
    }
    cell[w] = value;
  }
  sync_block();
  const Global<const uint4> words(s.words);
  const Global<const uint2> terms(s.terms);
  for (uint32_t w = thread(); w < s.packed_words; w += kRepackThreads) {
    const uint4 word = words[w];
    uint32_t value = word.w;
    for (uint32_t t = word.x; t < word.x + (word.y & 0xffff); ++t) {
      const uint2 term = terms[t];
      value ^= turned_left(cell[term.x & 0xffff], term.x >> 16) & term.y;
    }
    const uint32_t plane = word.y >> 16;
    const uint64_t place = (uint64_t{group} * s.row_blocks + block) * s.plane_bytes[plane];
    Global<uint32_t>(p.to + s.offsets[plane] + place + word.z)[0] = value;
  }
}

}  // namespace infer::cuda
