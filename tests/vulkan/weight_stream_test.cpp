// Weights that a device gets from the host's memory, which it reads itself where the driver imports
// it: what arrives is what loading packs; long prompts through layers of the host have the device's
// bits.
#include <doctest.h>

#include <future>
#include <set>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "backends/vulkan/neighbours.h"
#include "tests/api/told_text.h"
#include "tests/streamed_weights.h"
#include "tests/vulkan/failing_calls.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

using infer::test::generate;
using infer::test::logits;
using infer::test::logits_one_by_one;
using infer::test::open;
using infer::test::sampled;
using infer::test::StreamedModel;
using infer::test::Text;
using infer::test::text;

constexpr const char* kFeedForward = "ffn_(up|gate|down)";

VKAPI_ATTR VkResult VKAPI_CALL no_host_memory(VkDevice, VkExternalMemoryHandleTypeFlagBits,
                                              const void*, VkMemoryHostPointerPropertiesEXT*) {
  return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}

/// Devices whose driver imports no memory of the host.
OpenDevice without_import() {
  InstanceOptions options;
  options.replace_of_device = [](VolkDeviceTable& functions) {
    functions.vkGetMemoryHostPointerPropertiesEXT = no_host_memory;
  };
  return test::opener({.instance = Instance::create(std::move(options)).value()});
}

TEST_CASE("streamed weights: what arrives is what loading packs") {
  if (!present()) return;
  CHECK(test::watched_instance().value()->devices().front().import_alignment > 0);
  const auto device = test::open_watched("vulkan").value();
  CHECK(test::check_arrivals(*device, weight_layout) > 60);
  const auto copies = without_import()("vulkan", {}).value();
  CHECK(test::check_arrivals(*copies, weight_layout) > 60);
}

TEST_CASE("streamed weights: a long prompt has the bits of a model that is on the device") {
  if (!present()) return;
  for (const char* type : {"q4_k_m", "f16"}) {
    CAPTURE(type);
    const StreamedModel model("vulkan", test::opener(), type);
    const std::vector<int32_t> prompt = text(70, 3);
    const std::vector<int32_t> few(prompt.begin(), prompt.begin() + 31);
    const std::vector<float> expected = logits(*model.load(model.options("")), prompt);
    CHECK((logits(*model.load(model.options(kFeedForward, false)), prompt) != expected));
    const auto streamed = model.load(model.options(kFeedForward));
    CHECK(streamed->memory().streamed_from == 32);
    CHECK(streamed->memory().devices[1].streams == "feed-forward of layers 0 to 2");
    CHECK((logits(*streamed, prompt) == expected));
    // Prompts of fewer tokens are computed where the layers are, as tokens one by one are.
    CHECK((logits(*streamed, few) == logits_one_by_one(*streamed, few)));
    const StreamedModel copied("vulkan", without_import(), type);
    CHECK((logits(*copied.load(model.options(kFeedForward)), prompt) == expected));
  }
}

TEST_CASE("streamed weights: experts, and prompts by matrices") {
  if (!present()) return;
  const StreamedModel model("vulkan", test::opener(), "q4_k_m", "mixtral-8x7b");
  const std::vector<int32_t> prompt = text(140, 3);
  LoadOptions options = model.options("");
  const std::vector<float> expected = logits(*model.load(options), prompt);
  options.cpu_experts = 3;
  const auto streamed = model.load(options);
  CHECK(streamed->memory().streamed_from == 128);
  CHECK(streamed->memory().devices[1].streams == "experts of layers 0 to 2");
  CHECK((logits(*streamed, prompt) == expected));
  if (!has_matrices()) return;
  const StreamedModel tuned("vulkan", test::opener({.tuning = with_matrices({})}), "q4_k_m");
  CHECK((logits(*tuned.load(tuned.options(kFeedForward)), prompt) ==
         logits(*tuned.load(tuned.options("")), prompt)));
}

TEST_CASE("streamed weights: what others compute meanwhile, and steps, change nothing") {
  if (!present()) return;
  const StreamedModel model("vulkan", test::opener(), "q4_k_m");
  const std::vector<std::vector<int32_t>> prompts{text(70, 1), text(20, 2), text(100, 4)};
  std::vector<Text> alone;
  {
    const auto engine = model.load(model.options(kFeedForward));
    for (size_t i = 0; i < prompts.size(); ++i) {
      alone.push_back(generate(*open(*engine), prompts[i], sampled(8, i)));
    }
  }
  LoadOptions options = model.options(kFeedForward);
  options.batch_rows = 33;
  const auto engine = model.load(options);
  std::vector<std::future<Text>> texts;
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < prompts.size(); ++i) sessions.push_back(open(*engine));
  for (size_t i = 0; i < prompts.size(); ++i) {
    texts.push_back(std::async(
        std::launch::async, [&, i] { return generate(*sessions[i], prompts[i], sampled(8, i)); }));
  }
  for (size_t i = 0; i < prompts.size(); ++i) CHECK((texts[i].get() == alone[i]));
}

TEST_CASE(
    "streamed weights: each call that fails comes to a typed failure, and nothing is leaked") {
  if (!present()) return;
  test::FailingCalls driver;
  const StreamedModel model("vulkan", driver.opener(), "q8_0", "tinyllama-1.1b", 1);
  const std::set<std::string> failed = test::check_failing_streams(driver, model, false);
  CHECK(failed.contains("vkCreateSemaphore"));
  CHECK(failed.contains("vkGetMemoryHostPointerPropertiesEXT"));
}

}  // namespace
}  // namespace infer::vulkan
