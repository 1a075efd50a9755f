// What a row chooses and attends to is the same however many blocks share its keys.
#include "tests/shared_rows.h"
#include "backends/cuda/device.h"
#include "tests/cuda_driver.h"

namespace infer::cuda {
namespace {

std::unique_ptr<Device> opened(bool whole) {
  static uint64_t seed = 3;
  test::cuda_driver().set_seed(seed++);
  Tuning tuning;
  tuning.split_rows = whole ? 0 : 32;
  return CudaDevice::open(0, false, {.tuning = tuning}).value();
}

TEST_CASE("chosen slots: parts of a row change none") { test::check_lists(opened); }

TEST_CASE("attention to lists: chunks of keys change no bit") { test::check_listed(opened); }

TEST_CASE("attention to blocks: chunks of keys change no bit") { test::check_pooled(opened); }

}  // namespace
}  // namespace infer::cuda
