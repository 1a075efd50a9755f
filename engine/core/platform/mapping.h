// Files mapped into memory.
#pragma once

#include <cstddef>

#include "engine/core/platform/files.h"

namespace infer::os {

/// The first bytes of an open file, to be read only.
Answer<const std::byte*> map_file(int file, size_t bytes);
void unmap(const std::byte* mapping, size_t bytes);

/// Mappings consist of pages of so many bytes.
size_t page_bytes();
// Both are advice: what the system does not follow costs time or memory, nothing else. Both take
// whole pages.
/// Takes them from memory. They are read from the file again when they are used.
void drop_pages(const std::byte* begin, size_t bytes);
/// Begins to read them.
void read_pages(const std::byte* begin, size_t bytes);

}  // namespace infer::os
