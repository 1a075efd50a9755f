#version 460
#include "backends/vulkan/glsl/common.glsl"

// Weights as the host has them, repacked for products (backends/gpu/repack.h): a workgroup has a
// cell of the packed weight.
const uint kThreads = 128;
layout(local_size_x = kThreads) in;
layout(constant_id = 0) const uint kCellWords = 1;

const uint kPlanes = 5;

// RepackShape
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer RepackShape {
  uint64_t cells, words, terms;
  uint64_t matrix_bytes, group_bytes;
  uint64_t offsets[kPlanes];
  uint plane_bytes[kPlanes];
  uint cell_words, packed_words;
  uint matrix_groups, cell_rows, row_blocks;
  uint host_rows, host_groups, host_block_bytes, host_blocks, stored_blocks;
};
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Words2 { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Words4 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Source { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer Target { uint v; };

layout(push_constant, scalar) uniform Push {
  RepackShape shape;
  uint64_t from;  // where the host's first matrix begins, or would begin
  uint64_t to;
  uint first_group;  // of the dispatch, counted over all matrices
};

shared uint cell[kCellWords];

uint turned_left(uint value, uint bits) { return value << bits | value >> ((32 - bits) & 31); }

void main() {
  const uint block = gl_WorkGroupID.x;
  const uint group = first_group + gl_WorkGroupID.y;
  const uint matrix = group / shape.matrix_groups;
  const uint first_row = group % shape.matrix_groups * shape.cell_rows;
  const uint host_group = first_row / shape.host_rows;
  const uint row = first_row % shape.host_rows;
  const uint host_block = block * shape.stored_blocks;
  const uint64_t begin = from + matrix * shape.matrix_bytes + host_group * shape.group_bytes +
                         uint64_t(host_block) * shape.host_block_bytes;
  Words2 sources = Words2(shape.cells);
  for (uint w = gl_LocalInvocationIndex; w < shape.cell_words; w += kThreads) {
    const uvec2 source = sources.v[w];
    const uint unit = source.y & 0xffff;
    const uint further = source.y >> 16 & 0xff;
    const uint stored = source.y >> 24;
    uint value = 0;
    if (host_group + further < shape.host_groups && host_block + stored < shape.host_blocks) {
      value = Source(begin + further * shape.group_bytes + source.x + row * unit).v;
    }
    cell[w] = value;
  }
  barrier();
  Words4 words = Words4(shape.words);
  Words2 terms = Words2(shape.terms);
  for (uint w = gl_LocalInvocationIndex; w < shape.packed_words; w += kThreads) {
    const uvec4 word = words.v[w];
    uint value = word.w;
    for (uint t = word.x; t < word.x + (word.y & 0xffff); ++t) {
      const uvec2 term = terms.v[t];
      value ^= turned_left(cell[term.x & 0xffff], term.x >> 16) & term.y;
    }
    const uint plane = word.y >> 16;
    const uint64_t place =
        (uint64_t(group) * shape.row_blocks + block) * shape.plane_bytes[plane];
    Target(to + shape.offsets[plane] + place + word.z).v = value;
  }
}
