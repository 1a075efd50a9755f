// Reads any bytes of a tensor whose source can only make whole blocks.
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
/// for at most `most` blocks at a time. `to` is always aligned like a float. If `out` is not
/// aligned, or begins or ends within a block, the blocks are made in a buffer and copied.
template <typename Make>
Status read_blocks(uint64_t offset, std::span<std::byte> out, int64_t block_bytes, int64_t most,
                   Make make) {
  const auto block = static_cast<uint64_t>(block_bytes);
  std::vector<std::byte> beside;
  while (!out.empty()) {
    const auto first = static_cast<int64_t>(offset / block);
    const uint64_t within = offset % block;
    const auto at_most = [most](uint64_t blocks) {
      return std::min(static_cast<int64_t>(std::min<uint64_t>(blocks, INT64_MAX)), most);
    };
    const int64_t whole = at_most(out.size() / block);
    size_t bytes = static_cast<size_t>(whole) * block;
    const bool aligned = reinterpret_cast<uintptr_t>(out.data()) % alignof(uint32_t) == 0;
    if (within == 0 && whole > 0 && aligned) {
      INFER_CHECK(make(first, whole, out.data()));
    } else {
      const int64_t count = at_most((within + out.size() - 1) / block + 1);
      beside.resize(static_cast<size_t>(count) * block);
      INFER_CHECK(make(first, count, beside.data()));
      bytes = std::min(out.size(), beside.size() - within);
      std::memcpy(out.data(), beside.data() + within, bytes);
    }
    out = out.subspan(bytes);
    offset += bytes;
  }
  return {};
}

}  // namespace infer
