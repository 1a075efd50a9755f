// Rows of a table, a piece an invocation.
layout(local_size_x = 64) in;

#ifdef CODEBOOK
float codebook(uint code) { return CODEBOOK(code); }
#endif

layout(push_constant, scalar) uniform Push {
  Step step;
  uint64_t w;
  I32 tokens;
  F32 y;
  uint width, vocabulary, y_stride;
  uint rows;
  float factor;
  uvec4 planes;  // of 1 and up: offset from w in units of 16 bytes
};

void main() {
  elements_of_row = width;
  tables = step.tables;
  const uint i = gl_GlobalInvocationID.x;
  const uint r = gl_GlobalInvocationID.y;
  if (i * kPiece >= width || r >= step.rows[rows]) return;
  const int id = tokens.v[r];  // below 0: a piece of an image
  const uint token = min(uint(max(id, 0)), vocabulary - 1);
  const Row row = row_at(Planes(w, planes), width, vocabulary, 0, token);
  float values[32];
  decode(row, i, values);
  [[unroll]] for (uint t = 0; t < 32; ++t) {
    const uint to = i * kPiece + t;
    if (to < width) y.v[r * y_stride + to] = id < 0 ? 0.0 : values[t] * factor;
  }
}
