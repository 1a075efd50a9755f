// Reading any bytes of a tensor whose source makes whole blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// Fills `out` from byte `offset` of a row of blocks of `block_bytes` each, by calls of
///   Status make(int64_t first, int64_t count, std::byte* to)
/// for at most `most` blocks. A block of which only a part is wanted is made beside.
template <typename Make>
Status read_blocks(uint64_t offset, std::span<std::byte> out, int64_t block_bytes, int64_t most,
                   Make make) {
  const auto block = static_cast<uint64_t>(block_bytes);
  std::vector<std::byte> beside;
  while (!out.empty()) {
    const auto first = static_cast<int64_t>(offset / block);
    const uint64_t within = offset % block;
    const auto whole =
        static_cast<int64_t>(std::min<uint64_t>(out.size() / block, static_cast<uint64_t>(most)));
    size_t bytes = static_cast<size_t>(whole) * block;
    if (within == 0 && whole > 0) {
      INFER_CHECK(make(first, whole, out.data()));
    } else {
      bytes = std::min<size_t>(out.size(), block - within);
      beside.resize(block);
      INFER_CHECK(make(first, int64_t{1}, beside.data()));
      std::memcpy(out.data(), beside.data() + within, bytes);
    }
    out = out.subspan(bytes);
    offset += bytes;
  }
  return {};
}

}  // namespace infer
