// The values of rows that are near their row's largest, found on the device: few cross to the host.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "engine/backend/device.h"

namespace infer::cuda {

/// One thread at a time.
class NearLargest {
 public:
  NearLargest(Context& context, Modules& modules) : context_(context), modules_(modules) {}

  /// Takes the memory for as many rows as usual steps have results of.
  Status start() { return allocate(kUsualRows, kUsualParts); }
  /// Device::near_largest of f32 [columns, 1, rows] at this address.
  Status find(uint64_t values, int64_t columns, int64_t rows, float reach,
              std::vector<std::vector<IndexedValue>>& found);

 private:
  /// Rows, and parts of them, that memory is taken for at first.
  static constexpr int64_t kUsualRows = 16;
  static constexpr int64_t kUsualParts = 64;

  Status allocate(int64_t rows, int64_t parts);

  Context& context_;
  Modules& modules_;
  std::unique_ptr<RawBuffer> largest_;     ///< f32, of each part of each row
  std::unique_ptr<RawBuffer> lists_;       ///< ops/near_largest.h
  std::unique_ptr<PinnedBuffer> on_host_;  ///< the same
  std::unique_ptr<Event> done_;
};

}  // namespace infer::cuda
