// What is particular to the Vulkan back end: the validation layer has nothing to say, memory comes
// from few blocks and goes back, failures are typed.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "engine/jobs/conformance.h"
#include "tests/support.h"

namespace infer::vulkan {
namespace {

/// The first device; null with a SKIPPED line where there is none.
std::unique_ptr<Device> open_first() {
  Result<std::unique_ptr<Device>> device = open_device("vulkan", {});
  if (device) return *std::move(device);
  test::skipped("vulkan: " + device.error().message());
  return nullptr;
}

TEST_CASE("the validation layer is content") {
  std::mutex mutex;
  std::vector<std::string> messages;
  const bool there = validate([&](const std::string& message) {
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  if (!there) {
    validate(nullptr);
    test::skipped("the validation layer is not installed (Debian: vulkan-validationlayers)");
    return;
  }
  if (const std::unique_ptr<Device> device = open_first()) {
    for (const char* op : {"embed", "rms_norm", "rope", "glu", "moe_route"}) {
      const SelftestReport report = run_conformance(*device, false, op);
      CHECK(report.passed > 0);
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    }
    const auto run = [&](OpId id, auto wanted) {
      std::vector<OpCase> cases;
      op_def(id).cases(cases);
      int run = 0;
      for (const OpCase& c : cases) {
        if (!wanted(c.name)) continue;
        CHECK(run_case(*device, op_def(id), c, false).ok());
        ++run;
      }
      CHECK(run > 0);
    };
    // One shape of each cache type; types of weights are the same code to the layer.
    run(OpId::Attention, [](const std::string& name) { return name.starts_with("grouped 8:2"); });
    for (const OpId id : {OpId::HeadMatmul, OpId::MoeMatmul}) {
      run(id, [](const std::string& name) {
        return name.starts_with("f16") || name.starts_with("q4_k") || name.starts_with("iq2_xs");
      });
    }
  }
  validate(nullptr);
  for (const std::string& message : messages) FAIL_CHECK(message);
}

TEST_CASE("parts of memory come from few blocks and go back") {
  const std::unique_ptr<Device> device = open_first();
  if (!device) return;
  const Heap& heap = static_cast<const VulkanDevice&>(*device).heap();
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::byte> pattern(1000);
  for (int i = 0; i < 200; ++i) {
    buffers.push_back(device->alloc(1000 + i, Purpose::activations).value());
    std::ranges::fill(pattern, static_cast<std::byte>(i));
    REQUIRE(device->write(pattern, {buffers.back().get(), i % 7}).ok());
  }
  CHECK(heap.blocks() == 1);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> found(pattern.size());
    REQUIRE(device->read({buffers[static_cast<size_t>(i)].get(), i % 7}, found).ok());
    std::ranges::fill(pattern, static_cast<std::byte>(i));
    CHECK(found == pattern);
  }
  for (size_t i = 0; i < buffers.size(); i += 2) buffers[i].reset();
  buffers.clear();
  CHECK(heap.held() == 0);
  CHECK(device->allocated(Purpose::activations) == 0);
}

TEST_CASE("a large request takes no more than it asks for") {
  const std::unique_ptr<Device> device = open_first();
  if (!device) return;
  const Heap& heap = static_cast<const VulkanDevice&>(*device).heap();
  const int64_t bytes = int64_t{40} << 20;
  const auto large = device->alloc(bytes, Purpose::weights).value();
  CHECK(heap.held() == bytes);
  // More than one staging buffer's worth, from and to odd places.
  std::vector<std::byte> data(static_cast<size_t>(9 << 20) + 13);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 >> 8);
  REQUIRE(device->write(data, {large.get(), 3}).ok());
  const auto copy = device->alloc(bytes, Purpose::weights).value();
  REQUIRE(device->copy({large.get(), 3}, {copy.get(), 5}, static_cast<int64_t>(data.size())).ok());
  std::vector<std::byte> found(data.size());
  REQUIRE(device->read({copy.get(), 5}, found).ok());
  CHECK(found == data);
}

TEST_CASE("what does not fit is out of memory, and the device goes on") {
  const std::unique_ptr<Device> device = open_first();
  if (!device) return;
  const auto huge = device->alloc(int64_t{1} << 46, Purpose::weights);
  REQUIRE(!huge.has_value());
  CHECK(huge.error().code() == StatusCode::out_of_memory);
  CHECK(huge.error().message().find("vulkan:0") != std::string::npos);
  CHECK(device->alloc(1000, Purpose::kv).has_value());
}

TEST_CASE("a device that is not there is not found") {
  if (open_first() == nullptr) return;
  const auto device = open_device("vulkan:99", {});
  REQUIRE(!device.has_value());
  CHECK(device.error().code() == StatusCode::not_found);
}

}  // namespace
}  // namespace infer::vulkan
