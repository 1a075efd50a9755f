// What all shaders share: memory by address, the counts of a step, the place of an element.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U64x2 { u64vec2 v[]; };
// Read only: where all lanes read the same, the subgroup can.
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer F32x4 { vec4 v; };
// 64 and 128 bits: of neighbouring floats, or of what is half as wide.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Pair { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Eight { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8 { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Addresses { uint64_t v[]; };

// What the host writes before each step (backends/gpu/step.h).
struct StepKind {
  uint64_t table;
  uint stride;
  uint unused;
};
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Step {
  uint rows[4];     // tokens, outputs, of the tokens those generated (they come first), none
  uint64_t tables;  // backends/gpu/tables.h
  StepKind kinds[];
};

// backends/gpu/push.h: ShapePush, StridePush
struct Shape {
  uint d0, d1, stride1, stride2, rows;
};
struct Strides {
  uint stride1, stride2;
};

uint at(Strides s, uint i1, uint i2) { return i1 * s.stride1 + i2 * s.stride2; }
uint at(Shape s, uint i1, uint i2) { return i1 * s.stride1 + i2 * s.stride2; }

float half_of(uint bits) { return unpackHalf2x16(bits).x; }
