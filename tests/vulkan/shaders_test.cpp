// What is left to drivers of the arithmetic of shaders.
#include <doctest.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/exact_code.h"
#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {
namespace {

// SPIR-V: opcodes and decorations, from its specification.
constexpr uint32_t kDecorate = 71;
constexpr uint32_t kNoContraction = 42;
constexpr size_t kHeaderWords = 5;

bool is_arithmetic(uint32_t opcode) {
  // FNegate, FAdd, FSub, FMul, FDiv, VectorTimesScalar, Dot
  return opcode == 127 || opcode == 129 || opcode == 131 || opcode == 133 || opcode == 136 ||
         opcode == 142 || opcode == 148;
}

/// Floating-point operations that a driver may join or put into another order.
int64_t free_operations(std::span<const uint32_t> code) {
  std::set<uint32_t> kept;
  std::set<uint32_t> all;
  for (size_t i = kHeaderWords; i < code.size(); i += code[i] >> 16) {
    if (code[i] >> 16 == 0) return -1;
    const uint32_t opcode = code[i] & 0xffff;
    if (opcode == kDecorate && code[i + 2] == kNoContraction) kept.insert(code[i + 1]);
    if (is_arithmetic(opcode)) all.insert(code[i + 2]);
  }
  int64_t free = 0;
  for (const uint32_t id : all) free += kept.contains(id) ? 0 : 1;
  return free;
}

TEST_CASE("no driver may change arithmetic: the same bits, whichever shader computes them") {
  int64_t changed = 0;
  for (const Shader& shader : all_shaders()) {
    INFO(shader.name);
    const std::vector<uint32_t> exact = exact_code(shader.code);
    CHECK(free_operations(exact) == 0);
    CHECK(exact_code(exact) == exact);  // nothing is marked twice
    changed += exact.size() > shader.code.size() ? 1 : 0;
  }
  CHECK(changed > 50);
}

}  // namespace
}  // namespace infer::vulkan
