// The values near a row's largest, found on the device.
#include "tests/near_largest.h"

#include "backends/cuda/device.h"

namespace infer::cuda {
namespace {

TEST_CASE("CUDA lists the values that are near the largest of each row") {
  const auto device = CudaDevice::open(0, false).value();
  infer::test::check_near_largest(*device, {1, 63, 64, 65, 4096, 4097, 12345});
}

}  // namespace
}  // namespace infer::cuda
