// What a row chooses and attends to is the same however many blocks share its keys.
#include "tests/shared_rows.h"

#include "backends/cuda/device.h"
#include "backends/gpu/split_rows.h"
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

TEST_CASE("chosen slots: steps have parts enough for a GPU, and no more memory than larger ones") {
  constexpr int64_t kSplit = 32;
  constexpr int64_t kMost = 256;
  const auto parts = [](int64_t lists, int64_t rows) {
    return gpu::select_parts(tensor(DType::i32, 1, lists, rows), kMost, kSplit);
  };
  CHECK(gpu::select_parts(tensor(DType::i32, 1, 1, 1), kMost, 0) == 1);
  CHECK(parts(1, 1) == kMost);
  CHECK(parts(4, 1) == kMost / 4);
  CHECK(parts(1, 32) == 32);
  CHECK(parts(1, 64) == 8);  // 33 rows: 264 blocks
  CHECK(parts(4, 64) == 2);
  CHECK(parts(1, 256) == 2);
  CHECK(parts(1, 512) == 1);
  CHECK(parts(4, 512) == 1);
}

TEST_CASE("attention to lists: chunks of keys change no bit") { test::check_listed(opened); }

TEST_CASE("attention to blocks: chunks of keys change no bit") { test::check_pooled(opened); }

}  // namespace
}  // namespace infer::cuda
