// Element i of the head at x[from], rotated with the other of its pair by row r's angle.
// style: op::Rope::Style.
float roped(uint style, F32 x, uint from, uint i, uint pairs, F32 table, Strides strides, uint r) {
  const float own = x.v[from + i];
  if (i >= 2 * pairs) return own;
  const uint pair = style == 0 ? i / 2 : i % pairs;
  const bool first = style == 0 ? i % 2 == 0 : i < pairs;
  const uint step_to_other = style == 0 ? 1 : pairs;
  const float other = x.v[first ? from + i + step_to_other : from + i - step_to_other];
  const uint angle = at(strides, pair, r);
  const float c = table.v[angle];
  const float s = table.v[angle + 1];
  return first ? fma(own, c, -(other * s)) : fma(own, c, other * s);
}
