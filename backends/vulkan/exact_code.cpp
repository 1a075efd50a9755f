#include "backends/vulkan/exact_code.h"

#include <set>

namespace infer::vulkan {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr uint32_t kDecorate = 71;        // target, decoration
constexpr uint32_t kMemberDecorate = 72;  // both come before types and code
constexpr uint32_t kNoContraction = 42;
constexpr uint32_t kDecorateWords = 3;

constexpr uint32_t kExtInst = 12;  // type, result, set, instruction
constexpr uint32_t kFma = 50;      // of GLSL.std.450, the only set that shaders use

/// Whether the instruction at `words` computes with floating-point numbers.
bool is_arithmetic(const uint32_t* words) {
  const uint32_t opcode = words[0] & 0xffff;
  if (opcode == kExtInst) return words[4] == kFma;
  // FNegate, FAdd, FSub, FMul, FDiv; FRem, FMod, VectorTimesScalar; Dot
  return opcode == 127 || opcode == 129 || opcode == 131 || opcode == 133 || opcode == 136 ||
         (opcode >= 140 && opcode <= 142) || opcode == 148;
}

}  // namespace

std::vector<uint32_t> exact_code(std::span<const uint32_t> code) {
  std::set<uint32_t> marked;  // decorations come first
  std::set<uint32_t> results;
  size_t decorations = 0;  // where they begin
  for (size_t i = kHeaderWords; i < code.size(); i += code[i] >> 16) {
    const uint32_t opcode = code[i] & 0xffff;
    if (decorations == 0 && (opcode == kDecorate || opcode == kMemberDecorate)) decorations = i;
    if (opcode == kDecorate && code[i + 2] == kNoContraction) marked.insert(code[i + 1]);
    if (is_arithmetic(&code[i]) && !marked.contains(code[i + 2])) results.insert(code[i + 2]);
  }
  std::vector<uint32_t> exact(code.begin(), code.begin() + static_cast<ptrdiff_t>(decorations));
  for (const uint32_t id : results) {
    exact.insert(exact.end(), {kDecorateWords << 16 | kDecorate, id, kNoContraction});
  }
  exact.insert(exact.end(), code.begin() + static_cast<ptrdiff_t>(decorations), code.end());
  return exact;
}

}  // namespace infer::vulkan
