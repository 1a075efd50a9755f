// What the shaders of attention among the rows of a text have in common.
layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q, k, v, y;
  I32 begins, ends;
  F32 sinks, slopes;  // by head
  Strides q_strides, k_strides, v_strides, y_strides;
  float scale, softcap;
  int rows_before, rows_after;  // that a row sees; -1: all of its text
  uint chunk;                   // as in op::TextAttention
  uint tiles;                   // of a head of keys, with matrices
};

// The rows that a row sees: [first_seen, end_seen).
uint first_seen(uint r) {
  const uint begin = uint(begins.v[r]);
  uint first = rows_before < 0 ? begin : max(begin, r - min(r, uint(rows_before)));
  if (chunk > 0) first = max(first, begin + (r - begin) / chunk * chunk);
  return first;
}
uint end_seen(uint r) {
  const uint end = uint(ends.v[r]);
  return rows_after < 0 ? end : min(end, r + uint(rows_after) + 1);
}
