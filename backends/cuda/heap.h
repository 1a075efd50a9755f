// The memory that the back end takes of a GPU. Everything comes from here, also what programs need
// for themselves, so that what the driver counts is known to the byte.
//
// Where the device has virtual memory, all of it is one range of addresses. Physical memory is
// mapped behind what is there as it is needed, in the driver's granules, and given back once
// nothing in it is used. So a heap that grows and shrinks moves nothing, and at most a part of one
// granule is unused at its end. Elsewhere it is blocks of the driver, each a multiple of a granule.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/core/status.h"

namespace infer::cuda {

class Context;

/// Every part of a heap begins at a multiple of this, in bytes.
inline constexpr int64_t kAlignment = 256;
/// What drivers of today take from a device at a time, in bytes, whatever is allocated. It is not
/// documented but of virtual memory, where the driver says it.
inline constexpr int64_t kUsualGranule = int64_t{2} << 20;

/// Thread-safe. It does not outlive its context.
class Heap {
 public:
  /// Errors: device, out_of_memory.
  static Result<std::unique_ptr<Heap>> create(Context& context);
  virtual ~Heap() = default;

  /// The address of memory with undefined contents. Errors: out_of_memory, device.
  virtual Result<uint64_t> allocate(int64_t bytes) = 0;
  /// Gives back what allocate() returned. Work that uses it is done, or comes before on the
  /// context's stream.
  virtual void release(uint64_t address) = 0;

  /// Bytes taken from the driver, as it counts them.
  virtual int64_t held() const = 0;
  /// Bytes by which held() grows by these parts, in this order, if nothing is unused().
  virtual int64_t taken_by(std::span<const int64_t> parts) const = 0;
  /// Bytes at the end of what is held that no part has.
  virtual int64_t unused() const = 0;
};

}  // namespace infer::cuda
