// The 6-bit scales and offsets of Q4_K and Q5_K: engine/quant/k_scales.h. `head` holds d and dmin,
// then the 12 bytes: of the first four sub-blocks the scales, then their offsets, six bits each, with
// two bits of those of the last four above them; then four bits each of the last four.

// Scales and offsets of sub-blocks 2c and 2c + 1: those two, then these. A word holds four.
uvec4 k_scales(uvec4 head, uint c) {
  const bool last = c >= 2;
  const uint scales = last ? (head[3] & 0x0f0f0f0fu) | ((head[1] >> 2) & 0x30303030u)
                           : head[1] & 0x3f3f3f3fu;
  const uint offsets = last ? ((head[3] >> 4) & 0x0f0f0f0fu) | ((head[2] >> 2) & 0x30303030u)
                            : head[2] & 0x3f3f3f3fu;
  const uint shift = c % 2 * 16;
  return uvec4((scales >> shift) & 255, (scales >> shift >> 8) & 255,
               (offsets >> shift) & 255, (offsets >> shift >> 8) & 255);
}
