// What is particular to the Vulkan back end: memory comes from few blocks and goes back, failures
// are typed.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/device.h"
#include "engine/jobs/conformance.h"
#include "infer/infer.hpp"
#include "tests/kept_devices.h"
#include "tests/support.h"
#include "tests/validation.h"

namespace infer::vulkan {
namespace {

/// The first device; null with a SKIPPED line where there is none.
std::unique_ptr<Device> open_first() {
  Result<std::unique_ptr<Device>> device = test::open_watched("vulkan");
  if (device) return *std::move(device);
  test::skipped("vulkan: " + device.error().message());
  return nullptr;
}

std::vector<DeviceInfo> listed() {
  const auto backends = all_backends();
  const auto found = std::ranges::find_if(
      backends, [](const BackendDef* b) { return std::string(b->name) == "vulkan"; });
  return (*found)->list();
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

/// Bytes that the driver has given, by allocation.
struct Given {
  std::mutex mutex;
  std::map<VkDeviceMemory, VkDeviceSize> bytes;
  PFN_vkAllocateMemory allocate = nullptr;
  PFN_vkFreeMemory free = nullptr;

  int64_t sum() {
    const std::lock_guard lock(mutex);
    int64_t sum = 0;
    for (const auto& [memory, size] : bytes) sum += static_cast<int64_t>(size);
    return sum;
  }
};

Given& given() {
  static Given state;
  return state;
}

VkResult VKAPI_PTR allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                            const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  const VkResult result = given().allocate(device, info, callbacks, memory);
  const std::lock_guard lock(given().mutex);
  if (result == VK_SUCCESS) given().bytes[*memory] = info->allocationSize;
  return result;
}

void VKAPI_PTR free_memory(VkDevice device, VkDeviceMemory memory,
                           const VkAllocationCallbacks* callbacks) {
  given().free(device, memory, callbacks);
  const std::lock_guard lock(given().mutex);
  given().bytes.erase(memory);
}

TEST_CASE("what the driver gives is what was planned, but for 1 % or 16 MiB") {
  if (open_first() == nullptr) return;
  VulkanOptions own;
  own.instance = Instance::create({.on_message = test::on_validation_message,
                                   .replace_of_device =
                                       [](VolkDeviceTable& functions) {
                                         given().allocate =
                                             std::exchange(functions.vkAllocateMemory, allocate);
                                         given().free =
                                             std::exchange(functions.vkFreeMemory, free_memory);
                                       }})
                     .value();
  for (const char* name : {"llama-q4_0", "gpt-oss-mxfp4"}) {
    INFO(name);
    LoadOptions load;
    load.device = "vulkan";
    load.context = 64 << 10;
    load.batch_rows = 512;
    const std::string path = test::data_path("golden/" + std::string(name) + ".gguf");
    const auto engine = Engine::Impl::open(path, load, test::opener(own));
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    const auto session = (*engine)->open_session().value();
    std::vector<int32_t> tokens(600);  // two programs, and one of each smaller bucket
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 60) + 1;
    for (size_t rows = tokens.size(); rows > 0; rows /= 2) {
      const Status status = session->evaluate(std::span(tokens).first(rows), {});
      REQUIRE_MESSAGE(status.ok(), status.message());
    }
    int64_t planned = 0;
    for (const DeviceMemoryReport& device : (*engine)->memory().devices) {
      if (!device.device.starts_with("vulkan")) continue;
      planned += device.weights + device.kv + device.activations + device.scratch;
    }
    CHECK(planned > int64_t{4} << 20);
    CHECK(given().sum() >= planned);
    CHECK(given().sum() <= planned + std::max(planned / 100, int64_t{16} << 20));
  }
  CHECK(given().sum() == 0);
}

TEST_CASE("what bounds a device and what it has is listed") {
  if (open_first() == nullptr) return;
  const std::vector<DeviceInfo> devices = listed();
  REQUIRE(!devices.empty());
  const auto limit = [&](const char* name) {
    for (const auto& [known, value] : devices[0].limits) {
      if (known == name) return value;
    }
    return int64_t{-1};
  };
  CHECK(limit("largest_allocation_bytes") >= int64_t{1} << 28);
  CHECK(limit("shared_memory_bytes") >= 16 << 10);  // the least that Vulkan allows
  CHECK(limit("workgroup") >= 128);
  CHECK(limit("subgroup") >= 4);
}

/// As a driver without 64-bit integers.
void VKAPI_PTR no_int64(VkPhysicalDevice, VkPhysicalDeviceFeatures2* features) {
  features->features = {};
}

TEST_CASE("a device that lacks a feature is listed with the reason, and refused") {
  if (open_first() == nullptr) return;
  VulkanOptions own;
  own.instance = Instance::create({.replace = [](InstanceFunctions& functions) {
                   functions.vkGetPhysicalDeviceFeatures2 = no_int64;
                 }}).value();
  const auto device = test::opener(own)("vulkan:0", {});
  const auto best = test::opener(own)("vulkan", {});
  REQUIRE(!own.instance->devices().empty());
  const DeviceInfo listed = own.instance->devices()[0].info();
  CHECK(listed.usable.code() == StatusCode::unsupported);
  CHECK(listed.usable.message().find("64-bit integers in shaders") != std::string::npos);
  REQUIRE(!device.has_value());
  CHECK(device.error().message() == listed.usable.message());
  CHECK(!best.has_value());
  CHECK(open_first() != nullptr);  // others know nothing of it
}

TEST_CASE("an operation that is not in the table is unsupported, and the others go on") {
  if (open_first() == nullptr) return;
  std::vector<const VulkanOp*> rest;
  for (const VulkanOp* op : all_vulkan_ops()) {
    if (op->id != OpId::Softcap) rest.push_back(op);
  }
  const OpTable<VulkanOp> table(rest);
  const auto device = test::opener({.ops = &table})("vulkan:0", {}).value();
  const SelftestReport missing = run_conformance(*device, false, "softcap");
  CHECK(missing.unsupported > 0);
  CHECK(missing.passed + missing.failed == 0);
  const SelftestReport others = run_conformance(*device, false, "scale");
  CHECK(others.passed > 0);
  CHECK(others.failed + others.unsupported == 0);
}

TEST_CASE("what the validation layer says is told to whoever made the instance") {
  if (open_first() == nullptr) return;
  if (!Instance::can_validate()) return test::skipped("the validation layer is not installed");
  std::vector<std::string> said, others;
  const auto listening = [](std::vector<std::string>& to) {
    return Instance::create({.on_message = [&to](const std::string& text) { to.push_back(text); }})
        .value();
  };
  const std::shared_ptr<Instance> instance = listening(said);
  const std::shared_ptr<Instance> other = listening(others);
  const int32_t best = best_device(instance->devices());
  const auto context =
      Context::create(instance, instance->devices()[static_cast<size_t>(best)]).value();
  VkBufferCreateInfo empty{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};  // has no size
  VkBuffer buffer = VK_NULL_HANDLE;
  context->vk().vkCreateBuffer(context->device(), &empty, nullptr, &buffer);
  context->vk().vkDestroyBuffer(context->device(), buffer, nullptr);
  CHECK(!said.empty());
  CHECK(others.empty());
}

TEST_CASE("a device that is not there is not found") {
  if (open_first() == nullptr) return;
  const auto device = test::open_watched("vulkan:99");
  REQUIRE(!device.has_value());
  CHECK(device.error().code() == StatusCode::not_found);
}

}  // namespace
}  // namespace infer::vulkan
