// Types of one element a block: pieces of 32 neighbours, the last of a row cut short.
#define RAGGED

void decode(Row row, uint i, out float v[32]) {
  const uint last = elements_of_row - 1;
  [[unroll]] for (uint t = 0; t < 32; ++t) v[t] = decode_one(row, min(i * kPiece + t, last));
}
