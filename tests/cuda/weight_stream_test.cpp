// Weights that a GPU gets from the host's memory: what arrives is what loading packs, for every
// type and layout of the host; and long prompts through layers of the host have the GPU's bits.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/packing.h"
#include "engine/session/engine_impl.h"
#include "tests/api/model.h"
#include "tests/api/told_text.h"
#include "tests/cuda/failing.h"
#include "tests/cuda/gpus.h"
#include "tests/streamed_weights.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Failing;
using infer::test::generate;
using infer::test::Gpus;
using infer::test::logits;
using infer::test::logits_one_by_one;
using infer::test::open;
using infer::test::sampled;
using infer::test::TestGpu;
using infer::test::Text;
using infer::test::text;

TEST_CASE("streamed weights: what arrives is what loading packs") {
  const auto gpu = CudaDevice::open(0, false).value();
  CHECK(test::check_arrivals(*gpu, weight_layout) > 60);
  CHECK(cuda_driver().live() > 0);
}

TEST_CASE(
    "streamed weights: numbers that the host rounds, and types without blocks, are not taken") {
  const auto gpu = CudaDevice::open(0, false).value();
  const auto host = open_device("cpu", {.threads = 1}).value();
  const auto streams = [&](const TensorDesc& desc) {
    const std::optional<HostLayout> layout = host->host_layout(desc);
    return layout && gpu->streams(desc, *layout);
  };
  CHECK(streams(tensor(DType::q4_k, 256, 64)));
  CHECK(streams(tensor(DType::f16, 256, 64)));
  CHECK_FALSE(streams(tensor(DType::nf4, 256, 64)));
  CHECK_FALSE(streams(tensor(DType::f32, 256, 64)));
  CHECK_FALSE(streams(tensor(DType::q4_k, 0, 64)));
}

/// On the tests' GPUs.
struct Model : test::StreamedModel {
  explicit Model(const std::string& type, const std::string& shape = "tinyllama-1.1b",
                 int32_t layers = 3)
      : StreamedModel("cuda", open_device, type, shape, layers) {}
};

TEST_CASE("streamed weights: a long prompt has the bits of a model that is on the GPU") {
  for (const char* type : {"q4_k_m", "f16"}) {
    CAPTURE(type);
    const Model model(type);
    const std::vector<int32_t> prompt = text(70, 3);
    const std::vector<int32_t> few(prompt.begin(), prompt.begin() + 31);
    const auto on_gpu = model.load(model.options(""));
    const auto streamed = model.load(model.options("ffn_(up|gate|down)"));
    const auto on_host = model.load(model.options("ffn_(up|gate|down)", false));
    CHECK(on_gpu->memory().streamed_from == 0);
    CHECK(on_host->memory().streamed_from == 0);
    CHECK(streamed->memory().streamed_from == 32);
    CHECK(streamed->memory().devices[1].streams == "feed-forward of layers 0 to 2");
    const std::vector<float> expected = logits(*on_gpu, prompt);
    CHECK((logits(*streamed, prompt) == expected));
    CHECK((logits(*on_host, prompt) != expected));
    // Prompts of fewer tokens are computed where the layers are, as tokens one by one are.
    const std::vector<float> alone = logits_one_by_one(*streamed, few);
    CHECK((logits(*streamed, few) == alone));
    CHECK_FALSE(std::equal(alone.begin(), alone.end(), expected.begin()));
  }
  CHECK(cuda_driver().live() == 0);
}

TEST_CASE("streamed weights: layers of the host, whose attention stays there") {
  const Model model("q4_k_m");
  const std::vector<int32_t> prompt = text(70, 3);
  LoadOptions options = model.options("");
  options.gpu_layers = 2;  // the output and a layer
  const auto streamed = model.load(options);
  CHECK(streamed->memory().devices[1].streams == "layers 0 to 1");
  options.stream_weights = false;
  const auto on_host = model.load(options);
  const std::vector<float> found = logits(*streamed, prompt);
  const std::vector<float> near = logits(*on_host, prompt);
  REQUIRE(found.size() == near.size());
  double error = 0;
  double all = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += std::pow(double{found[i]} - double{near[i]}, 2);
    all += std::pow(double{near[i]}, 2);
  }
  CHECK(error > 0);
  CHECK(error < 1e-3 * all);
}

TEST_CASE("streamed weights: experts") {
  const Model model("q4_k_m", "mixtral-8x7b");
  const std::vector<int32_t> prompt = text(140, 3);
  LoadOptions options = model.options("");
  const auto on_gpu = model.load(options);
  options.cpu_experts = 3;
  const auto streamed = model.load(options);
  CHECK(streamed->memory().streamed_from == 128);
  CHECK(streamed->memory().devices[1].streams == "experts of layers 0 to 2");
  CHECK((logits(*streamed, prompt) == logits(*on_gpu, prompt)));
  // A router, which is small, goes with its experts.
  options.cpu_experts = -1;
  options.gpu_layers = 1;
  CHECK(plan_model(model.path(), options).value().devices[1].streams == "layers 0 to 2");
}

TEST_CASE("streamed weights: what others compute meanwhile, and steps, change nothing") {
  const Model model("q4_k_m");
  const std::vector<std::vector<int32_t>> prompts{text(70, 1), text(20, 2), text(100, 4)};
  std::vector<Text> alone;
  {
    const auto engine = model.load(model.options("ffn_(up|gate|down)"));
    for (size_t i = 0; i < prompts.size(); ++i) {
      alone.push_back(generate(*open(*engine), prompts[i], sampled(8, i)));
    }
  }
  for (const int32_t rows : {256, 33}) {
    CAPTURE(rows);
    LoadOptions options = model.options("ffn_(up|gate|down)");
    options.batch_rows = rows;
    const auto engine = model.load(options);
    std::vector<std::future<Text>> texts;
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < prompts.size(); ++i) sessions.push_back(open(*engine));
    for (size_t i = 0; i < prompts.size(); ++i) {
      texts.push_back(std::async(std::launch::async, [&, i] {
        return generate(*sessions[i], prompts[i], sampled(8, i));
      }));
    }
    for (size_t i = 0; i < prompts.size(); ++i) CHECK((texts[i].get() == alone[i]));
  }
}

TEST_CASE("streamed weights: a plan is what the driver counts; too little memory goes without") {
  const Model model("q4_k_m");
  const auto planned = [&](int64_t memory) {
    const Gpus gpus({TestGpu{.memory = memory, .virtual_memory = true}});
    LoadOptions load = model.options("ffn_(up|gate|down)");
    auto opened = OpenedModels::open(model.path(), load, false, open_device);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
    const DevicePlan plan = opened->main.plan.devices.at(1);
    const int64_t before = cuda_driver().free_bytes(0);
    {
      const auto engine =
          Engine::Impl::wrap(Engine::Impl::load(model.path(), *std::move(opened), load).value());
      generate(*open(*engine), text(70, 3), sampled(2));
      logits(*engine, text(200, 3));
      CHECK(before - cuda_driver().free_bytes(0) <= plan.total());
    }
    CHECK(cuda_driver().live() == 0);
    return plan.stream.bytes();
  };
  CHECK(planned(int64_t{1} << 30) > int64_t{32} << 20);
  CHECK(planned(int64_t{110} << 20) == 0);
}

TEST_CASE("streamed weights: two GPUs get theirs from the same memory") {
  const Model model("q4_k_m");
  const Gpus gpus({TestGpu(), TestGpu()});
  LoadOptions options = model.options("ffn_(up|gate|down)");
  options.device = "cuda:0,cuda:1";
  std::vector<float> found;
  {
    const auto streamed = model.load(options);
    CHECK_FALSE(streamed->memory().devices[1].streams.empty());
    CHECK_FALSE(streamed->memory().devices[2].streams.empty());
    found = logits(*streamed, text(70, 3));
  }
  options.placements.clear();
  CHECK((found == logits(*model.load(options), text(70, 3))));
}

TEST_CASE(
    "streamed weights: memory is pinned when it is first copied from, until the model is gone") {
  const Model model("q4_k_m");
  {
    const auto engine = model.load(model.options("ffn_(up|gate|down)"));
    CHECK(cuda_driver().pinned_bytes() == 0);
    logits(*engine, text(20, 3));  // too short to be streamed
    CHECK(cuda_driver().pinned_bytes() == 0);
    logits(*engine, text(70, 3));
    const int64_t pinned = cuda_driver().pinned_bytes();
    CHECK(pinned > 0);
    CHECK(pinned < engine->memory().weights);
    logits(*engine, text(70, 4));
    CHECK(cuda_driver().pinned_bytes() == pinned);
  }
  CHECK(cuda_driver().pinned_bytes() == 0);
}

TEST_CASE("streamed weights: memory that cannot be pinned is copied all the same") {
  const Model model("q4_k_m");
  const auto made = [&](const TestGpu& gpu) {
    const Gpus gpus({gpu});
    const auto engine = model.load(model.options("ffn_(up|gate|down)"));
    return logits(*engine, text(70, 3));
  };
  const std::vector<float> expected = made({});
  CHECK((made({.registers_nothing = true}) == expected));
  CHECK((made({.registers_read_only = true}) == expected));
}

TEST_CASE(
    "streamed weights: each call that fails comes to a typed failure, and nothing is leaked") {
  const Model model("q8_0", "tinyllama-1.1b", 2);
  Failing driver;
  const std::set<std::string> failed = test::check_failing_streams(driver, model, true);
  CHECK(failed.contains("cuStreamWaitEvent"));
  CHECK(failed.contains("cuMemHostRegister"));
}

}  // namespace
}  // namespace infer::cuda
