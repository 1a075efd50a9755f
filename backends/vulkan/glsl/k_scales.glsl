// The 6-bit scales and offsets of Q4_K and Q5_K: engine/quant/k_scales.h. `head` holds d and dmin,
// then the 12 bytes.
uint packed_scale(uvec4 head, uint i) {
  return bitfieldExtract(head[1 + i / 4], int(i % 4 * 8), 8);
}

// Scale and offset of sub-block j.
uvec2 k_scale(uvec4 head, uint j) {
  if (j < 4) return uvec2(packed_scale(head, j) & 63, packed_scale(head, j + 4) & 63);
  const uint low = packed_scale(head, j + 4);
  return uvec2((low & 15) | ((packed_scale(head, j - 4) >> 6) << 4),
               (low >> 4) | ((packed_scale(head, j) >> 6) << 4));
}
