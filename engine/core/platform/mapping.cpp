#include "engine/core/platform/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace infer::os {
namespace {

/// The calls take the pages as writable although they change nothing.
void* address_of(const std::byte* begin) { return const_cast<std::byte*>(begin); }

}  // namespace

Answer<const std::byte*> map_file(int file, size_t bytes) {
  const void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (address == MAP_FAILED) {
    return tl::unexpected(std::error_code(errno, std::generic_category()));
  }
  return static_cast<const std::byte*>(address);
}

void unmap(const std::byte* mapping, size_t bytes) { ::munmap(address_of(mapping), bytes); }

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

void drop_pages(const std::byte* begin, size_t bytes) {
  ::madvise(address_of(begin), bytes, MADV_DONTNEED);
}

void read_pages(const std::byte* begin, size_t bytes) {
  ::madvise(address_of(begin), bytes, MADV_WILLNEED);
}

}  // namespace infer::os
