// Q8_K: engine/quant/q8_k.h; the sums stay behind.
#define BLOCK 256
#define PLANE0 256
#undef PLANE1
#define PLANE1 4

void decode(Row row, uint i, out float v[32]) {
  const float d = uintBitsToFloat(word_at(row, 1, i / 8));
  const uvec4 low = words_at(row, 0, 2 * i);
  const uvec4 high = words_at(row, 0, 2 * i + 1);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    v[j] = float(signed_byte_of(low, j)) * d;
    v[j + 16] = float(signed_byte_of(high, j)) * d;
  }
}
