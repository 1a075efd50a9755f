// Four signed bytes times four signed bytes, summed: OpSDotKHR on packed words, which the compiler of
// shaders does not know by name.
#extension GL_EXT_spirv_intrinsics : require

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"],
                  capabilities = [6018, 6019],  // DotProductInput4x8BitPacked, DotProduct
                  id = 4450)                    // OpSDotKHR
int packed_dot(int a, int b, spirv_literal int format);

int dot4(int a, int b) { return packed_dot(a, b, 0); }  // PackedVectorFormat4x8Bit
