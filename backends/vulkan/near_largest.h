// The values of rows that are near their row's largest, found on the device: few cross to the host.
#pragma once

#include <memory>
#include <vector>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipelines.h"
#include "engine/backend/device.h"

namespace infer::vulkan {

/// One thread at a time.
class NearLargest {
 public:
  NearLargest(Context& context, Pipelines& pipelines) : context_(context), pipelines_(pipelines) {}

  /// Device::near_largest of f32 [columns, 1, rows] at this address.
  Status find(VkDeviceAddress values, int64_t columns, int64_t rows, float reach,
              std::vector<std::vector<IndexedValue>>& found);

 private:
  /// ops/near_largest.comp, which does not read the last one.
  struct Push {
    VkDeviceAddress values = 0, largest = 0, lists = 0;
    uint32_t columns = 0, part_columns = 0, parts = 0, capacity = 0;
    float reach = 0;
    uint32_t rows = 0;

    bool operator==(const Push&) const = default;
  };

  Status allocate(int64_t rows, int64_t parts);
  Status record(const Push& push);

  Context& context_;
  Pipelines& pipelines_;
  // In the order in which they are made: commands end before memory goes.
  std::unique_ptr<RawBuffer> largest_;  ///< f32, of each part of each row
  std::unique_ptr<RawBuffer> lists_;    ///< mapped
  std::unique_ptr<Commands> commands_;
  Push recorded_;  ///< of the commands; none: values 0
};

}  // namespace infer::vulkan
