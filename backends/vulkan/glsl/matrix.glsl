// Cooperative matrices of a subgroup: SPV_KHR_cooperative_matrix, which the compiler of shaders does
// not know by name. It reaches their instructions, but not every release of it takes a type as an
// operand of a type: then the type's number stands for it (backend.cmake says which, and checks it).
// So that the numbers are known this file comes first in a shader, with to_half() first in it.
//
// kMatrixM × kMatrixN results, kMatrixK of K at a time; factors are float16, sums float32.
#pragma use_vulkan_memory_model
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

float16_t to_half(float x) { return float16_t(x); }

const uint kSubgroupScope = 3;
const uint kMatrixM = MATRIX_M;
const uint kMatrixN = MATRIX_N;
const uint kMatrixK = MATRIX_K;
// What a matrix is for: the left or the right factor, or a sum.
const uint kUseA = 0;
const uint kUseB = 1;
const uint kUseSum = 2;

#define MATRIX(type, rows, columns, use)                                                   \
  spirv_type(extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022], id = 4456, \
             type, kSubgroupScope, rows, columns, use)
#define MatrixA MATRIX(HALF_TYPE, kMatrixM, kMatrixK, kUseA)
#define MatrixB MATRIX(HALF_TYPE, kMatrixK, kMatrixN, kUseB)
#define MatrixSum MATRIX(FLOAT_TYPE, kMatrixM, kMatrixN, kUseSum)

// OpCooperativeMatrixLoadKHR and StoreKHR in shared memory: what other invocations wrote before a
// barrier, or will read behind one. Strides are in units of 16 bytes.
const uint kRowMajor = 0;
const uint kColumnMajor = 1;
const uint kWorkgroupScope = 2;
#define MAKE_VISIBLE 0x30    // MakePointerVisible, NonPrivatePointer
#define MAKE_AVAILABLE 0x28  // MakePointerAvailable, NonPrivatePointer

spirv_instruction(id = 4457)
MatrixA load_a(spirv_by_reference uvec4 from, uint order, uint stride,
               spirv_literal uint access, uint scope);
spirv_instruction(id = 4457)
MatrixB load_b(spirv_by_reference uvec4 from, uint order, uint stride,
               spirv_literal uint access, uint scope);
spirv_instruction(id = 4457)
MatrixSum load_sum(spirv_by_reference uvec4 from, uint order, uint stride,
                   spirv_literal uint access, uint scope);
spirv_instruction(id = 4458)
void store_sum(spirv_by_reference uvec4 to, MatrixSum sum, uint order, uint stride,
               spirv_literal uint access, uint scope);

// a · b + sum: OpCooperativeMatrixMulAddKHR.
spirv_instruction(id = 4459)
MatrixSum multiply_add(MatrixA a, MatrixB b, MatrixSum sum);
// Every element the same: OpCompositeConstruct.
spirv_instruction(id = 80)
MatrixSum filled(float x);
