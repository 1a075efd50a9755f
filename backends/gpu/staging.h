// How data reaches a GPU: through memory that host and device share, a part at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/core/status.h"

namespace infer::gpu {

/// Bytes of one staging buffer: the most that one call of a StagingFill may make.
inline constexpr int64_t kStagingBytes = 4 << 20;

/// A part of a staging buffer and its target.
struct StagedCopy {
  int64_t staged = 0;  ///< offset in the staging buffer
  int64_t to = 0;      ///< offset from the start of the upload's target
  int64_t bytes = 0;
};

/// Makes the next part of an upload in `out` (kStagingBytes) and returns its targets. No copies:
/// the upload is complete.
using StagingFill =
    std::function<Status(std::span<std::byte> out, std::vector<StagedCopy>& copies)>;

}  // namespace infer::gpu
