// Large pages of memory (2 MiB on x86-64). With fewer pages a core translates addresses faster,
// above all in a virtual machine, where the guest's and the host's tables are both searched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace infer::os {

/// Touches memory for the first time, with large pages as long as that takes no longer than with
/// others. Where memory is in pieces, the system first moves other pages out of the way, which can
/// take longer than large pages save: most of what is slow is left out, and not touched. Does
/// nothing where the system gives no large pages to those who ask (transparent huge pages). May run
/// on several threads, each with a part. `behind`: bytes after these into which a page may reach.
void take_large_pages(std::byte* data, int64_t bytes, int64_t behind = 0);

/// Bytes of this process that lie in large pages now; 0 if the system does not say.
int64_t large_page_bytes_held();

}  // namespace infer::os
