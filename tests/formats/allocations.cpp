#include "tests/formats/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace infer::test {

std::atomic<size_t> largest_request{0};

}  // namespace infer::test

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  std::atomic<size_t>& largest = infer::test::largest_request;
  size_t seen = largest.load();
  while (seen < bytes && !largest.compare_exchange_weak(seen, bytes)) {
  }
  return std::malloc(std::max<size_t>(bytes, 1));
}

void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
