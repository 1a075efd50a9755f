// What of a tuning is found by measuring, on a device that is used for the first time.
#pragma once

#include <optional>

#include "backends/vulkan/op.h"

namespace infer {
class Device;
}

namespace infer::vulkan {

/// The part of a Tuning that changes the speed alone, and no bit of any result; and whether
/// matrices are used at all.
struct MeasuredTuning {
  uint32_t tall = 0;            ///< Tuning::tall: 1, 2, 4 or 8
  uint32_t vector_columns = 0;  ///< Tuning::vector_columns: 8, 16 or 32
  uint32_t matrix_tile = 0;     ///< Tuning::matrix_tile: which of kMatrixTiles
  /// 0: matrices are much slower than other products. Some drivers list them for hardware that has
  /// none.
  uint32_t matrices = 1;

  bool operator==(const MeasuredTuning&) const = default;
};

/// Times products of matrices with one column, with several and with as many as a prompt has, in
/// each way that results allow, and returns the fastest. Takes about 0.1 s on a GPU, and what the
/// driver needs to compile the shaders. `target`: the device with the tuning that suits its family,
/// which stays unless another is a twentieth faster. Errors: those of compiling and running.
Result<MeasuredTuning> measure_tuning(Device& device, Context& context, Pipelines& pipelines,
                                      const Target& target);

/// What save_tuning() kept for this device and driver (kept_file.h). Nothing if there is none.
std::optional<MeasuredTuning> saved_tuning(const PhysicalDevice& device);
Status save_tuning(const PhysicalDevice& device, const MeasuredTuning& measured);

}  // namespace infer::vulkan
