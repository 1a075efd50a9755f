// The best of many numbers, kept in a buffer in the order of adding: a workgroup of 64 invocations
// (kLanes) keeps the kCount largest. When the buffer is full, the worse ones go.
#include "backends/vulkan/glsl/lists.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Numbers { uint64_t v[]; };

shared uint votes[2];

// The same for all lanes.
Numbers best;  // the first number is best.v[1]
uint best_size;
uint64_t best_least;

void start_best(uint64_t buffer_address) {
  best = Numbers(buffer_address);
  best_size = 0;
  best_least = 0;
}

// What lanes have written to the buffer can be read by all.
void sync_best() {
  memoryBarrierBuffer();
  barrier();
}

void append_best(bool taken, uint64_t number) {
  const uint lane = gl_LocalInvocationIndex;
  sync_best();  // the votes before have been counted, and what is at the places of these is read
  if (lane < 2) votes[lane] = 0;
  barrier();
  if (taken) atomicOr(votes[lane / 32], 1u << (lane % 32));
  barrier();
  uint to = best_size + bitCount(votes[lane / 32] & ((1u << (lane % 32)) - 1));
  if (lane >= 32) to += bitCount(votes[0]);
  if (taken) best.v[1 + to] = number;
  best_size += bitCount(votes[0]) + bitCount(votes[1]);
}

// The kCount-th largest number, or one that as many are not below: digit by digit.
uint64_t least_of_best() {
  const uint lane = gl_LocalInvocationIndex;
  uint64_t upper = 0;
  uint wanted = kCount;
  for (uint digit = 0; digit < 8; ++digit) {
    const uint shift = 56 - 8 * digit;
    const uint64_t found = digit == 0 ? 0 : ~uint64_t(0) << (shift + 8);  // bits of `upper`
    sync_best();
    for (uint i = lane; i < kBins; i += kLanes) bins[i] = 0;
    barrier();
    for (uint i = lane; i < best_size; i += kLanes) {
      const uint64_t number = best.v[1 + i];
      const bool among = ((number ^ upper) & found) == 0;
      if (among) atomicAdd(bins[uint(number >> shift) % kBins], 1);
    }
    barrier();
    const uint bin = bin_of(wanted);
    upper |= uint64_t(bin) << shift;
    if (bins[bin] == wanted) break;
  }
  return upper;
}

// Leaves no more than kCount.
void trim_best() {
  if (best_size <= kCount) return;
  best_least = least_of_best();
  const uint before = best_size;
  best_size = 0;
  for (uint first = 0; first < before; first += kLanes) {
    const uint i = first + gl_LocalInvocationIndex;
    const uint64_t number = i < before ? best.v[1 + i] : 0;
    append_best(i < before && number >= best_least, number);
  }
}

// Each lane adds a number of its own; 0: none.
void add_best(uint64_t number) {
  append_best(number > best_least, number);
  if (best_size + kLanes > kRoom) trim_best();
}

// Writes what was added, which are the last slots of blocks, as a list, and what stands behind.
void write_best(I32 y, uint to, uint last) {
  trim_best();
  sync_best();
  for (uint i = gl_LocalInvocationIndex; i < best_size * kOfBlock; i += kLanes) {
    y.v[to + i] = element_of_list(best.v[1 + i / kOfBlock], i % kOfBlock);
  }
  write_rest(y, to, best_size, last);
}
