// The host's memory that devices copy from without the processor: pages that the driver pins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/context.h"

namespace infer::cuda {

/// Pins what it is told to, as far as the driver and the memory allow, and unpins that at its end.
/// All GPUs of the process can copy from what one of them pinned. Not thread-safe; several may be
/// used at once.
class PinnedMemory {
 public:
  explicit PinnedMemory(Context& context) : context_(context) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// Pins those pages of these parts that nobody has pinned: of neighbours together.
  void pin(std::vector<std::span<const std::byte>> parts);
  /// How many of `bytes` bytes one copy can read: those that were pinned together, or not at all.
  static int64_t together(const std::byte* from, int64_t bytes);

 private:
  void pin_free(uintptr_t begin, uintptr_t end);
  void pin_together(uintptr_t begin, uintptr_t end);
  void tell(const char* why);

  Context& context_;
  std::vector<uintptr_t> own_;  ///< where what it pinned begins
  bool told_ = false;           ///< that some is not pinned
};

}  // namespace infer::cuda
