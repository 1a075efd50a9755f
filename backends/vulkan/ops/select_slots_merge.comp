#version 460
#include "backends/vulkan/glsl/common.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require

// The best of the parts of a list that select_slots.comp has made, in their order: a workgroup a list. A
// subgroup goes through one part after another.
const uint kLanes = 128;
layout(local_size_x = kLanes) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/select_slots.def"
#include "backends/vulkan/glsl/lists.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Numbers { uint64_t v[]; };

layout(push_constant, scalar) uniform Push {
  Step step;
  I32 slots, y;
  uint64_t parts;  // u64 [1 + kRoom, kParts, lists, rows]
  uint y_stride;
};

shared uint sizes[kParts];   // of each part
shared uint before[kParts];  // of what is chosen, how many are in parts before

uint64_t first_buffer;

Numbers buffer_of(uint part) { return Numbers(first_buffer + uint64_t(part) * kBufferBytes); }

// The kCount-th largest number of all: digit by digit.
uint64_t least_of(uint count) {
  const uint lane = gl_LocalInvocationIndex;
  uint64_t upper = 0;
  uint wanted = kCount;
  for (uint digit = 0; digit < 8; ++digit) {
    const uint shift = 56 - 8 * digit;
    barrier();  // the bins before have been read
    for (uint i = lane; i < kBins; i += kLanes) bins[i] = 0;
    barrier();
    for (uint part = gl_SubgroupID; part < count; part += gl_NumSubgroups) {
      Numbers numbers = buffer_of(part);
      for (uint i = gl_SubgroupInvocationID; i < sizes[part]; i += gl_SubgroupSize) {
        const uint64_t number = numbers.v[1 + i];
        const bool among = digit == 0 || number >> (shift + 8) == upper >> (shift + 8);
        if (among) atomicAdd(bins[uint(number >> shift) % kBins], 1);
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
  const uint list = gl_WorkGroupID.y;
  const uint to = r * y_stride + list * kMost;
  const uint of_part = (runs_of(last) + kParts - 1) / kParts;
  const uint count = (runs_of(last) + of_part - 1) / of_part;
  first_buffer = parts + uint64_t((r * gl_NumWorkGroups.y + list) * kParts) * kBufferBytes;
  for (uint part = lane; part < count; part += kLanes) sizes[part] = uint(buffer_of(part).v[0]);
  const uint64_t least = least_of(count);
  for (uint part = gl_SubgroupID; part < count; part += gl_NumSubgroups) {
    Numbers numbers = buffer_of(part);
    uint chosen = 0;
    for (uint first = 0; first < sizes[part]; first += gl_SubgroupSize) {
      const uint i = first + gl_SubgroupInvocationID;
      const uint64_t number = i < sizes[part] ? numbers.v[1 + i] : 0;
      chosen += subgroupBallotBitCount(subgroupBallot(number >= least));
    }
    if (subgroupElect()) before[part] = chosen;
  }
  barrier();
  if (lane == 0) {
    uint all = 0;
    for (uint part = 0; part < count; ++part) {
      const uint chosen = before[part];
      before[part] = all;
      all += chosen;
    }
  }
  barrier();
  for (uint part = gl_SubgroupID; part < count; part += gl_NumSubgroups) {
    Numbers numbers = buffer_of(part);
    uint place = before[part];
    for (uint first = 0; first < sizes[part]; first += gl_SubgroupSize) {
      const uint i = first + gl_SubgroupInvocationID;
      const uint64_t number = i < sizes[part] ? numbers.v[1 + i] : 0;
      const uvec4 votes = subgroupBallot(number >= least);
      const uint own = place + subgroupBallotExclusiveBitCount(votes);
      for (uint s = 0; s < kOfBlock && number >= least; ++s) {
        y.v[to + own * kOfBlock + s] = element_of_list(number, s);
      }
      place += subgroupBallotBitCount(votes);
    }
  }
  write_rest(y, to, kCount, last);
}
