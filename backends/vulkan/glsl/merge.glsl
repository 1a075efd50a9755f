// Attention's chunks: the pages that a row sees, shared out among at most kChunks chunks of equally
// many neighbouring pages, which depends on the row's own place alone. Each chunk has its largest
// score, the sum of its weights and the mix of its values, both relative to that score; they are
// merged in their order, whoever computed them.
const uint kChunks = 32;

// Takes a chunk (its largest score and sum) into what is merged so far; mixes go along as
// merged · keep + chunk's · add.
void merge(inout float most, inout float sum, float chunk_most, float chunk_sum, out float keep,
           out float add) {
  const float now = max(most, chunk_most);
  keep = exp_of(most - now);
  add = exp_of(chunk_most - now);
  precise float all = sum * keep;
  all = fma(chunk_sum, add, all);
  sum = all;
  most = now;
}

float merged_mix(float mix, float keep, float chunk_mix, float add) {
  precise float all = mix * keep;
  return fma(chunk_mix, add, all);
}

// Element d of the `count` chunks of a head, merged. The first one begins at `from`; each is f32
// [value_dim + 2]: sum, largest score and mix. most, sum: of a sink, or -infinity and 0.
float merged_chunks(F32 chunks, uint from, uint count, uint value_dim, uint d, float most, float sum) {
  float mix = 0;
  for (uint c = 0; c < count; ++c) {
    float keep, add;
    merge(most, sum, chunks.v[from + 1], chunks.v[from], keep, add);
    mix = merged_mix(mix, keep, chunks.v[from + 2 + d], add);
    from += value_dim + 2;
  }
  return mix / sum;
}

// Pages in sight of slot `slot`, whose first one in sight is `first`, and how many make a chunk.
uint pages_seen(uint first, uint slot) { return slot / kPageTokens - first / kPageTokens + 1; }

// The last place in the list of `most` slots that a row sees: as op::SelectSlots::given() says, less
// one.
uint last_chosen(uint slot, uint most, uint block, uint shift) {
  return slot < most ? slot : most - block + (slot + shift) % block;
}
uint chunk_pages(uint pages) { return (pages + kChunks - 1) / kChunks; }
// A window whose highest bit is set divides the slots into chunks, of which one is in sight.
const uint kChunked = 0x80000000;
uint first_seen(uint slot, uint window) {
  if ((window & kChunked) != 0) return slot - slot % (window & ~kChunked);
  return window > 0 && slot + 1 > window ? slot + 1 - window : 0;
}
