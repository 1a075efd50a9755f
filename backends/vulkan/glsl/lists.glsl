// The lists of select_slots: of whom they are made, and what is written. Needs
// select_slots.def and kLanes, the invocations of a workgroup.
#include "backends/vulkan/glsl/ranked.glsl"

// Numbers are kept in buffers, u64 [1 + kRoom]: how many there are, and those. kRoom: kCount and two
// numbers of each lane at least.
const uint kBufferBytes = (1 + kRoom) * 8;
// Of a list: slots, or blocks.
const uint kMost =
    kNumbers != 0 ? kCount : kCount * kBlock + kBlock - (kByHead != 0 ? 0 : 1);
const uint kOfBlock = kNumbers != 0 ? 1 : kBlock;  // elements of a list
const uint kKeys = 4;                              // of a lane of select_slots.comp, at a time
const uint kKeyLanes = 64;

// Slots, or blocks, up to the row's own, and whether it gets all of them.
uint seen_by(uint last) { return kNumbers != 0 ? (last + 1) / kBlock : last + 1; }
bool sees_all(uint last) { return seen_by(last) <= kMost; }

// The blocks of a row at slot `last` that may be chosen, and the runs of keys that a part of a row is made
// of: by head a run is a block.
uint blocks_of(uint last) { return (last + (kByHead != 0 ? 0 : 1)) / kBlock; }
uint runs_of(uint last) {
  const uint keys = kByHead != 0 ? 1 : kKeys * kKeyLanes;
  return (blocks_of(last) + keys - 1) / keys;
}

const uint kBins = 256;
const uint kBinsTogether = 16;
shared uint bins[kBins];
shared uint bins_together[kBins / kBinsTogether];

// The bin, counted from the highest, that has the `wanted`-th largest number; `wanted` becomes its
// place among those of the bin. No fewer numbers are in all bins.
uint bin_of(inout uint wanted) {
  const uint lane = gl_LocalInvocationIndex;
  if (lane < kBins / kBinsTogether) {
    uint sum = 0;
    for (uint i = 0; i < kBinsTogether; ++i) sum += bins[lane * kBinsTogether + i];
    bins_together[lane] = sum;
  }
  barrier();
  uint run = kBins / kBinsTogether - 1;
  while (bins_together[run] < wanted) wanted -= bins_together[run--];
  uint bin = run * kBinsTogether + kBinsTogether - 1;
  while (bins[bin] < wanted) wanted -= bins[bin--];
  return bin;
}

// An element of a block that was chosen: a slot, or its number.
int element_of_list(uint64_t number, uint i) {
  const uint end = place_of_ranked(number);
  return int(kNumbers != 0 ? end / kBlock : end - (kBlock - 1 - i));
}

// Writes at `to` what stands behind `chosen` blocks: −1, and from kCount blocks on the slots behind the
// row's blocks.
void write_rest(I32 y, uint to, uint chosen, uint last) {
  if (kNumbers != 0) return;
  const uint tail = blocks_of(last) * kBlock;
  for (uint i = chosen * kBlock + gl_LocalInvocationIndex; i < kMost; i += kLanes) {
    const uint behind = tail + (i - kCount * kBlock);
    y.v[to + i] = i >= kCount * kBlock && behind <= last ? int(behind) : -1;
  }
}
