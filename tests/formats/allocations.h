// The largest piece of memory asked for by this test program: what a file claims is not to decide.
#pragma once

#include <atomic>
#include <cstddef>

namespace infer::test {

/// Since it was last reset.
extern std::atomic<size_t> largest_request;

}  // namespace infer::test
