// The best of many numbers, kept in a buffer in the order of adding: a workgroup of 64 invocations
// (kLanes) keeps the kCount largest. When the buffer is full, the worse ones go.
//
// A buffer is u64 [1 + kRoom]: how many numbers there are, and those. kRoom: kCount and two numbers
// of each lane at least.
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Numbers { uint64_t v[]; };

const uint kBufferBytes = (1 + kRoom) * 8;
// Of a list: slots, or blocks.
const uint kMost =
    kNumbers != 0 ? kCount : kCount * kBlock + kBlock - (kByHead != 0 ? 0 : 1);
const uint kBins = 256;

shared uint bins[kBins];
shared uint votes[2];

// The same for all lanes.
Numbers best;  // the first number is best.v[1]
uint best_size;
uint64_t best_least;

// Slots, or blocks, up to the row's own, and whether it gets all of them.
uint seen_by(uint last) { return kNumbers != 0 ? (last + 1) / kBlock : last + 1; }
bool sees_all(uint last) { return seen_by(last) <= kMost; }

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
    sync_best();
    for (uint i = lane; i < kBins; i += kLanes) bins[i] = 0;
    barrier();
    for (uint i = lane; i < best_size; i += kLanes) {
      const uint64_t number = best.v[1 + i];
      const bool among = digit == 0 || number >> (shift + 8) == upper >> (shift + 8);
      if (among) atomicAdd(bins[uint(number >> shift) % kBins], 1);
    }
    barrier();
    uint bin = kBins - 1;
    while (bins[bin] < wanted) wanted -= bins[bin--];
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

// A slot and its score in one number: the higher, the better.
uint64_t ranked(float score, uint slot) {
  const uint bits = floatBitsToUint(score + 0.0);  // −0 is 0
  const uint ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return packUint2x32(uvec2(~slot, ordered));
}

// The blocks of a row at slot `last` that may be chosen.
uint blocks_of(uint last) { return (last + (kByHead != 0 ? 0 : 1)) / kBlock; }

// Writes the slots of the blocks whose last ones were added, at `to`, ascending, then those behind
// blocks_of() up to `last`, then −1 up to kMost; or the numbers of the blocks.
void write_best(I32 y, uint to, uint last) {
  trim_best();
  sync_best();
  if (kNumbers != 0) {
    for (uint i = gl_LocalInvocationIndex; i < kMost; i += kLanes) {
      y.v[to + i] = int(~unpackUint2x32(best.v[1 + i]).x / kBlock);
    }
    return;
  }
  const uint tail = blocks_of(last) * kBlock;
  for (uint i = gl_LocalInvocationIndex; i < kMost; i += kLanes) {
    int slot = -1;
    if (i / kBlock < best_size) {
      slot = int(~unpackUint2x32(best.v[1 + i / kBlock]).x - (kBlock - 1 - i % kBlock));
    } else if (i >= kCount * kBlock && tail + (i - kCount * kBlock) <= last) {
      slot = int(tail + (i - kCount * kBlock));
    }
    y.v[to + i] = slot;
  }
}
