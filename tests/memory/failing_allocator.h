// Allocations that fail on demand: every operator new of the process, and the aligned_alloc that
// device buffers come from (wrapped by the linker: tests/CMakeLists.txt).
#pragma once

#include <cstdint>
#include <vector>

namespace infer::test {

enum class Failing : uint8_t {
  one,   ///< one allocation alone
  rest,  ///< it and all after it
};

/// Blocks that are allocated now.
int64_t live_allocations();

/// From now on allocation number `first`, counted from 0, fails.
void fail_allocation(int64_t first, Failing failing);

/// From now on notes where allocations are asked for, until distinct_allocations().
void note_allocations();

/// The numbers, counted from 0 since note_allocations(), of what each place that asks for memory
/// asked for first and last. A place is the innermost calls on the stack.
struct Places {
  std::vector<int64_t> first, last;
};
Places distinct_allocations();

/// Lets everything succeed again and counts from 0; how many were asked for since the last call of
/// either function.
int64_t stop_failing();

}  // namespace infer::test
