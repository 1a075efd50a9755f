// The 6-bit scale and offset of piece p of a block of Q4_K or Q5_K, as neighbours.h has them. `head`:
// d and dmin, then the 12 bytes.
vec2 k_scales(uvec4 head, uint p) {
  const uint upper = head[3] >> (4 * p);
  const uint scale = ((head[1] >> (4 * p)) & 15) | ((upper & 3) << 4);
  const uint offset = ((head[2] >> (4 * p)) & 15) | ((upper & 12) << 2);
  return vec2(half_of(head[0] & 0xffffu) * float(scale), half_of(head[0] >> 16) * float(offset));
}
