#include <doctest.h>

#include <algorithm>
#include <vector>

#include "engine/core/platform/large_pages.h"

using namespace infer;

TEST_CASE("large pages: what lies outside of the part is not touched") {
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr auto kMark = std::byte{0xa5};
  for (const size_t bytes : {size_t{0}, size_t{1}, 4096 - size_t{1}, 2 * kMiB, 7 * kMiB + 123}) {
    for (const size_t first : {size_t{1}, size_t{4096}, kMiB + 17}) {
      CAPTURE(bytes);
      CAPTURE(first);
      std::vector<std::byte> memory(10 * kMiB, kMark);
      os::take_large_pages(memory.data() + first, static_cast<int64_t>(bytes));
      const auto part = memory.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = part + static_cast<std::ptrdiff_t>(bytes);
      const auto marked = [&](std::byte b) { return b == kMark; };
      CHECK(std::all_of(memory.begin(), part, marked));
      CHECK(std::all_of(end, memory.end(), marked));
      // One byte of each large page at most.
      CHECK(std::count(part, end, kMark) + 5 >= static_cast<std::ptrdiff_t>(bytes));
    }
  }
}
