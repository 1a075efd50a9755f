// Devices of the CUDA back end over the driver for tests: what is listed, opened, allocated and
// copied, and what the failures say.
#include "backends/cuda/device.h"

#include <doctest.h>

#include <cstring>
#include <numeric>
#include <string>

#include "tests/cuda/gpus.h"
#include "tests/support.h"

namespace infer {
const BackendDef& cuda_backend();
}

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Gpus;
using infer::test::TestGpu;

std::unique_ptr<Device> opened(int32_t index = 0) {
  Result<std::unique_ptr<Device>> device = CudaDevice::open(index, false);
  REQUIRE_MESSAGE(device.has_value(), device.error().message());
  return *std::move(device);
}

TEST_CASE("GPUs are listed, and the best is opened") {
  const int64_t gib = int64_t{1} << 30;
  const Gpus gpus({{.name = "Small", .capability = 75, .memory = 4 * gib, .multiprocessors = 20},
                   {.name = "Large", .capability = 90, .memory = 80 * gib, .multiprocessors = 132},
                   {.name = "Old", .capability = 61, .memory = 8 * gib, .multiprocessors = 300}});
  const std::vector<DeviceInfo> infos = infer::cuda_backend().list();
  REQUIRE(infos.size() == 3);
  CHECK(infos[0].name == "cuda:0");
  CHECK(infos[0].description == "Small, compute capability 7.5");
  CHECK(infos[1].memory_total == 80 * gib);
  CHECK(infos[1].usable.ok());
  CHECK(infos[2].usable.code() == StatusCode::unsupported);
  CHECK(infos[2].usable.message() ==
        "cuda:2: Old has compute capability 6.1; 7.5 or later is needed");
  CHECK(opened(-1)->info().name == "cuda:1");
  CHECK(open_device("cuda:0", {}).value()->info().name == "cuda:0");
  CHECK(open_device("cuda:2", {}).error().code() == StatusCode::unsupported);
  const Status missing = open_device("cuda:3", {}).error();
  CHECK(missing.code() == StatusCode::not_found);
  CHECK(missing.message() == "there is no device 'cuda:3'; the driver shows 3");
}

TEST_CASE("a driver that is too old or absent says so") {
  const Gpus gpus({TestGpu()});
  cuda_driver().set_version(12040);
  infer::test::restart_cuda_driver();
  CHECK(infer::cuda_backend().list().empty());
  const Status old = CudaDevice::open(0, false).error();
  cuda_driver().set_version(CUDA_VERSION);
  CHECK(old.code() == StatusCode::device);
  CHECK(old.message().find("it supports CUDA 12.4; this build needs 13.0") != std::string::npos);
  const Status absent = Driver::open("libno_such_driver.so.1").error();
  CHECK(absent.code() == StatusCode::device);
  CHECK(absent.message().find("libno_such_driver.so.1, was not found") != std::string::npos);
}

TEST_CASE("a driver that cannot compile the kernels of a GPU says which can") {
  const Gpus gpus({TestGpu()});
  const DriverFunctions& cu = Driver::get().value()->cu();
  const Status status =
      failure(cu, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "A GPU", "cannot load kernels");
  CHECK(status.code() == StatusCode::device);
  CHECK(status.message().starts_with("A GPU: cannot load kernels: "));
  CHECK(status.message().ends_with("supports CUDA " + std::to_string(CUDA_VERSION / 1000) + "." +
                                   std::to_string(CUDA_VERSION % 1000 / 10)));
}

TEST_CASE("without GPUs the driver has none") {
  const Gpus gpus({});
  CHECK(infer::cuda_backend().list().empty());
  CHECK(CudaDevice::open(-1, false).error().code() == StatusCode::not_found);
}

TEST_CASE("memory is allocated, counted and given back") {
  const int64_t mib = int64_t{1} << 20;
  const Gpus gpus({{.memory = 1024 * mib, .used_by_others = 300 * mib}});
  {
    const auto device = opened();
    const int64_t free = device->info().memory_free;
    CHECK(free < 724 * mib);  // less the context and what the device has
    CHECK(free > 700 * mib);
    auto large = device->alloc(600 * mib, Purpose::weights);
    REQUIRE(large.has_value());
    CHECK(reinterpret_cast<uintptr_t>((*large)->address()) % kAlignment == 0);
    CHECK(device->info().memory_free == free - 600 * mib);
    CHECK(device->allocated(Purpose::weights) == 600 * mib);
    const auto more = device->alloc(200 * mib, Purpose::kv);
    REQUIRE_FALSE(more.has_value());
    CHECK(more.error().code() == StatusCode::out_of_memory);
    CHECK(more.error().message().find("cuda:0") != std::string::npos);
    large->reset();
    CHECK(device->alloc(200 * mib, Purpose::kv).has_value());
  }
  CHECK(cuda_driver().live() == 0);
}

TEST_CASE("what is written is read, across staging buffers") {
  const auto device = opened();
  std::vector<std::byte> data(size_t{9} << 20);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 >> 4);
  const auto size = static_cast<int64_t>(data.size());
  const auto a = device->alloc(size + 64, Purpose::activations).value();
  const auto b = device->alloc(size + 64, Purpose::activations).value();
  REQUIRE(device->write(data, {a.get(), 64}).ok());
  REQUIRE(device->copy({a.get(), 64}, {b.get(), 0}, size).ok());
  std::vector<std::byte> back(data.size());
  REQUIRE(device->read({b.get(), 0}, back).ok());
  CHECK(std::memcmp(back.data(), data.data(), data.size()) == 0);
}

TEST_CASE("ceilings are measured") {
  const auto device = opened();
  const Ceilings found = device->measure_ceilings();
  CHECK(found.read_bandwidth_gb_s > 0);
  CHECK(found.int8_mac_g_s > 0);
  CHECK(found.prompt_mac_g_s > 0);
}

}  // namespace
}  // namespace infer::cuda
