#version 460
#include "backends/vulkan/glsl/common.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require

// The best of the parts of a list that select_slots.comp has made, in their order: a workgroup merges
// kMerged parts. Of more parts the best of these are merged in their turn.
#define WORKGROUP_SIZE(id, field, value) layout(local_size_x_id = id) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/select_slots.def"
#define kLanes gl_WorkGroupSize.x
#include "backends/vulkan/glsl/lists.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Numbers { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Best { uint64_t v[]; };

layout(push_constant, scalar) uniform Push {
  Step step;
  I32 slots, y;
  uint64_t from;  // u64 [1 + room, parts, lists, rows]
  uint64_t to;    // u64 [1 + kCount, groups of kMerged parts, lists, rows]; 0: y gets the lists
  uint y_stride;
  uint room, parts;
  uint joined;  // parts of select_slots.comp that a part is made of
};

shared uint sizes[kMerged];   // of each part
shared uint before[kLanes];   // of what is chosen, how many are in pieces before

uint64_t first_buffer;

Numbers buffer_of(uint part) { return Numbers(first_buffer + uint64_t(part) * ((1 + room) * 8)); }

// Numbers [begin, end) of a part. A subgroup goes through one piece after another; parts have pieces for
// all subgroups.
struct Piece {
  Numbers numbers;
  uint begin, end;
};
Piece piece_of(uint piece, uint of_part) {
  const uint part = piece / of_part;
  const uint size = sizes[part];
  const uint numbers = (size + of_part - 1) / of_part;
  const uint begin = min(piece % of_part * numbers, size);
  return Piece(buffer_of(part), begin, min(begin + numbers, size));
}

// What a lane has of the numbers from `first` on, 0 behind the last one. All loads are under way at once.
const uint kLoads = 8;
void load(Piece piece, uint first, out uint64_t own[kLoads]) {
  const uint from_lane = first + gl_SubgroupInvocationID;
  [[unroll]] for (uint j = 0; j < kLoads; ++j) {
    own[j] = piece.numbers.v[1 + min(from_lane + j * gl_SubgroupSize, piece.end - 1)];
  }
  [[unroll]] for (uint j = 0; j < kLoads; ++j) {
    if (from_lane + j * gl_SubgroupSize >= piece.end) own[j] = 0;
  }
}

// The kCount-th largest number of all, or one that as many are not below: digit by digit. The zeros behind
// the last number count among the smallest, where none is looked for.
uint64_t least_of(uint pieces, uint of_part) {
  const uint lane = gl_LocalInvocationIndex;
  uint64_t own[kLoads];
  uint64_t upper = 0;
  uint wanted = kCount;
  for (uint digit = 0; digit < 8; ++digit) {
    const uint shift = 56 - 8 * digit;
    const uint64_t found = digit == 0 ? 0 : ~uint64_t(0) << (shift + 8);  // bits of `upper`
    barrier();  // the bins before have been read
    for (uint i = lane; i < kBins; i += kLanes) bins[i] = 0;
    barrier();
    for (uint p = gl_SubgroupID; p < pieces; p += gl_NumSubgroups) {
      Piece piece = piece_of(p, of_part);
      for (uint first = piece.begin; first < piece.end; first += kLoads * gl_SubgroupSize) {
        load(piece, first, own);
        [[unroll]] for (uint j = 0; j < kLoads; ++j) {
          const bool among = ((own[j] ^ upper) & found) == 0;
          if (among) atomicAdd(bins[uint(own[j] >> shift) % kBins], 1);
        }
      }
    }
    barrier();
    const uint bin = bin_of(wanted);
    upper |= uint64_t(bin) << shift;
    if (bins[bin] == wanted) break;
  }
  return upper;
}

void main() {
  const uint r = gl_WorkGroupID.x;
  if (r >= step.rows[0]) return;
  const uint last = uint(slots.v[r]);
  if (sees_all(last)) return;
  const uint lane = gl_LocalInvocationIndex;
  const uint list = r * gl_NumWorkGroups.y + gl_WorkGroupID.y;
  const uint group = gl_WorkGroupID.z;
  const uint runs = (runs_of(last) + kParts - 1) / kParts * joined;
  const uint given = (runs_of(last) + runs - 1) / runs;
  if (group * kMerged >= given) return;
  const uint count = min(given - group * kMerged, kMerged);
  first_buffer = from + uint64_t(list * parts + group * kMerged) * ((1 + room) * 8);
  for (uint part = lane; part < count; part += kLanes) sizes[part] = uint(buffer_of(part).v[0]);
  barrier();
  uint all = 0;
  for (uint part = 0; part < count; ++part) all += sizes[part];
  const uint of_part = max(gl_NumSubgroups / count, 1);
  const uint pieces = count * of_part;
  const uint64_t least = all > kCount ? least_of(pieces, of_part) : 1;
  uint64_t own[kLoads];
  for (uint p = gl_SubgroupID; p < pieces; p += gl_NumSubgroups) {
    Piece piece = piece_of(p, of_part);
    uint chosen = 0;
    for (uint first = piece.begin; first < piece.end; first += kLoads * gl_SubgroupSize) {
      load(piece, first, own);
      [[unroll]] for (uint j = 0; j < kLoads; ++j) {
        chosen += subgroupBallotBitCount(subgroupBallot(own[j] >= least));
      }
    }
    if (subgroupElect()) before[p] = chosen;
  }
  barrier();
  if (lane == 0) {
    uint sum = 0;
    for (uint p = 0; p < pieces; ++p) {
      const uint chosen = before[p];
      before[p] = sum;
      sum += chosen;
    }
  }
  barrier();
  Best best = Best(to + uint64_t(list * gl_NumWorkGroups.z + group) * ((1 + kCount) * 8));
  const uint y_list = r * y_stride + gl_WorkGroupID.y * kMost;
  for (uint p = gl_SubgroupID; p < pieces; p += gl_NumSubgroups) {
    Piece piece = piece_of(p, of_part);
    uint place = before[p];
    for (uint first = piece.begin; first < piece.end; first += kLoads * gl_SubgroupSize) {
      load(piece, first, own);
      [[unroll]] for (uint j = 0; j < kLoads; ++j) {
        const uvec4 votes = subgroupBallot(own[j] >= least);
        const uint at = place + subgroupBallotExclusiveBitCount(votes);
        if (own[j] >= least && to != 0) best.v[1 + at] = own[j];
        for (uint s = 0; s < kOfBlock && own[j] >= least && to == 0; ++s) {
          y.v[y_list + at * kOfBlock + s] = element_of_list(own[j], s);
        }
        place += subgroupBallotBitCount(votes);
      }
    }
  }
  if (to == 0) {
    write_rest(y, y_list, kCount, last);
  } else if (lane == 0) {
    best.v[0] = min(all, kCount);
  }
}
