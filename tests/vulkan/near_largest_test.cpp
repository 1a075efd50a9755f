// The values near a row's largest, found on the device.
#include <string>
#include <utility>
#include <vector>

#include "tests/kept_devices.h"
#include "tests/near_largest.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

TEST_CASE("the device lists the values that are near the largest of each row") {
  if (!present()) return;
  const auto device = open_tuned(Tuning()).value();
  infer::test::check_near_largest(*device, {1, 63, 64, 65, 4096, 4097, 151937});
}

TEST_CASE("texts are the same whether the device or the host finds the logits that matter") {
  if (!present()) return;
  const test::KeptDevices kept;
  const auto texts = [](bool near_largest) {
    Tuning tuning;
    tuning.near_largest = near_largest;
    LoadOptions options;
    options.device = "vulkan";
    options.context = 256;
    const auto engine = load_tuned(test::data_path("golden/llama-q4_k.gguf"), options, tuning);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    std::vector<std::vector<int32_t>> all;
    for (const auto& [temperature, top_k] : {std::pair(0.0f, 0), {0.8f, 40}, {1.5f, 3}}) {
      const auto session = (*engine)->open_session().value();
      GenerateOptions generate;
      generate.max_tokens = 24;
      generate.ignore_end = true;
      generate.sampling.temperature = temperature;
      generate.sampling.top_k = top_k;
      generate.sampling.seed = 5;
      auto& tokens = all.emplace_back();
      const std::vector<int32_t> prompt{3, 7, 11, 2};
      const auto result = session->generate(prompt, generate, [&](int32_t token, std::string_view) {
        tokens.push_back(token);
        return true;
      });
      REQUIRE_MESSAGE(result.has_value(), result.error().message());
    }
    return all;
  };
  CHECK(texts(true) == texts(false));
}

}  // namespace
}  // namespace infer::vulkan
