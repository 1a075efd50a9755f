// A place and its score in one number: the higher the score, and of equal ones the lower the place, the
// larger. Above 0.
uint64_t ranked(float score, uint place) {
  const uint bits = floatBitsToUint(score + 0.0);  // −0 is 0
  const uint ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return packUint2x32(uvec2(~place, ordered));
}
uint place_of_ranked(uint64_t number) { return ~unpackUint2x32(number).x; }
