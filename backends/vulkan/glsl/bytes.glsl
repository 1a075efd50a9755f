// Columns of activations rounded to bytes, in pieces of 32 neighbours.
#extension GL_KHR_shader_subgroup_shuffle : require

// Four neighbours of a piece of a column as bytes, of 8 lanes each has four; the piece's scale, its
// largest magnitude over 127; the sum of the half that the lane is in. A NaN stays one in the scale.
void quantise(vec4 x, out int word, out float scale, out int sum) {
  const uvec4 sizes = floatBitsToUint(abs(x));
  uint largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  largest = max(largest, subgroupShuffleXor(largest, 1));
  largest = max(largest, subgroupShuffleXor(largest, 2));
  largest = max(largest, subgroupShuffleXor(largest, 4));
  const float most = uintBitsToFloat(largest);
  scale = most / 127.0;
  const float inverse = most > 1e-30 ? 127.0 / most : 0.0;
  const ivec4 q = ivec4(clamp(roundEven(x * inverse), -127.0, 127.0));
  word = (q.x & 255) | (q.y & 255) << 8 | (q.z & 255) << 16 | q.w << 24;
  sum = q.x + q.y + q.z + q.w;
  sum += subgroupShuffleXor(sum, 1);
  sum += subgroupShuffleXor(sum, 2);
}

// A piece of a column in bytes: with its scale and the sums of its halves.
struct BytePiece {
  int q[8];
  float scale;
  int first_sum, second_sum, unused;
};
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer BytePieces {
  BytePiece v[];
};
const uint kBytePiece = 48;  // bytes
