// The rows of logits as the host reads them from a device.
#pragma once

#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/exec/logits_needed.h"

namespace infer {

/// Not thread-safe.
class LogitReader {
 public:
  /// Returns f32 [columns, 1, rows] from `at`: in place where the host can read the device's
  /// memory, otherwise a copy. Where not all are needed, a device may find those that are; the
  /// others are −infinity then. Valid until the next call or the device's next run. Errors: those
  /// of Device::read.
  Result<std::span<const float>> read(Device& device, const MemoryRef& at, int64_t columns,
                                      int64_t rows, const LogitsNeeded& needed);

 private:
  Result<bool> read_near(Device& device, const MemoryRef& at, int64_t columns, int64_t rows,
                         const LogitsNeeded& needed);

  std::vector<float> copy_;
  bool whole_ = true;  ///< copy_ holds all values, not only those of near_
  std::vector<std::vector<IndexedValue>> near_;
  int64_t columns_ = 0;  ///< of near_
};

}  // namespace infer
