// Shaders that compute each element of a result [d0, d1, rows] for itself.
layout(local_size_x = 64) in;

// The element of this invocation; false where there is none.
bool element(Shape shape, Step step, out uvec3 i) {
  i = gl_GlobalInvocationID;
  return i.x < shape.d0 && i.z < step.rows[shape.rows];
}
