// What the standard library has as templates. Their instances are shared by all files of the
// program, so none with code of its own may be compiled with the flags of one instruction set.
#pragma once

#include <cstdint>

namespace infer::cpu {
namespace {

int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
void fill(float* begin, const float* end, float x) {
  for (; begin < end; ++begin) *begin = x;
}

}  // namespace
}  // namespace infer::cpu
