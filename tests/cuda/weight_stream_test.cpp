// Weights that a GPU gets from the host's memory: what arrives is what loading packs, for every
// type and layout of the host; and long prompts through layers of the host have the GPU's bits.
#include <doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <future>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/packing.h"
#include "engine/core/checked.h"
#include "engine/session/engine_impl.h"
#include "infer/jobs.hpp"
#include "tests/api/model.h"
#include "tests/api/told_text.h"
#include "tests/cuda/failing.h"
#include "tests/cuda/gpus.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Failing;
using infer::test::generate;
using infer::test::Gpus;
using infer::test::open;
using infer::test::sampled;
using infer::test::TestGpu;
using infer::test::Text;
using infer::test::text;

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t count) {
  std::minstd_rand random(5);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8);
  return bytes;
}

ReadFn reads(const Bytes& stored) {
  return [&stored](uint64_t offset, std::span<std::byte> out) -> Status {
    std::memcpy(out.data(), stored.data() + offset, out.size());
    return {};
  };
}

/// A device's memory with a weight that was loaded from these bytes.
Bytes loaded(Device& device, const TensorDesc& desc, const Bytes& stored) {
  const auto buffer = device.alloc(device.packed_bytes(desc), Purpose::weights).value();
  Bytes packed(static_cast<size_t>(device.packed_bytes(desc)));
  REQUIRE(device.write(packed, {buffer.get(), 0}).ok());
  REQUIRE(device.load_weight(desc, reads(stored), {buffer.get(), 0}).ok());
  REQUIRE(device.read({buffer.get(), 0}, packed).ok());
  return packed;
}

/// The same weight with rows of zeros behind each matrix, up to whole groups of the GPU's layout:
/// what the host's padding becomes there.
Bytes padded(const TensorDesc& desc, const Bytes& stored, TensorDesc& whole) {
  const int64_t rows = round_up(desc.shape[1], weight_layout(desc).together);
  whole = tensor(desc.type, desc.shape[0], rows, desc.shape[2]);
  Bytes bytes(static_cast<size_t>(whole.extent_bytes()));
  const auto own = static_cast<size_t>(desc.shape[1] * desc.row_bytes());
  for (int64_t m = 0; m < desc.shape[2]; ++m) {
    std::memcpy(bytes.data() + m * rows * whole.row_bytes(),
                stored.data() + m * static_cast<int64_t>(own), own);
  }
  return bytes;
}

TEST_CASE("streamed weights: what arrives is what loading packs") {
  const auto gpu = CudaDevice::open(0, false).value();
  int taken = 0;
  for (const std::string isa : {"", "avx2", "scalar", "file"}) {
    DeviceOptions options{.threads = 1, .repack = isa != "file", .isa = isa == "file" ? "" : isa};
    const auto opened = open_device("cpu", options);
    if (!opened) continue;  // not of this processor
    Device& host = **opened;
    for (const DTypeInfo& info : all_dtypes()) {
      // Matrices that are smaller than a piece, one that is larger; rows and blocks that fill no
      // group.
      for (const auto& [k, n, matrices] :
           {std::array<int64_t, 3>{512, 64, 1}, {768, 40, 3}, {32, 24, 2}, {4096, 9000, 1}}) {
        if (k % info.block_elements != 0) continue;
        if (n > 64 && (isa != "" || (info.type != DType::q4_k && info.type != DType::q8_0)))
          continue;
        const TensorDesc desc = tensor(info.type, k, n, matrices);
        const std::optional<HostLayout> layout = host.host_layout(desc);
        if (!layout || !gpu->streams(desc, *layout)) continue;
        ++taken;
        CAPTURE(isa);
        CAPTURE(to_string(desc));
        CAPTURE(layout->rows);
        const Bytes stored = random_bytes(static_cast<size_t>(desc.extent_bytes()));
        const auto memory = host.alloc(host.packed_bytes(desc), Purpose::weights).value();
        REQUIRE(host.load_weight(desc, reads(stored), {memory.get(), 0}).ok());

        const auto place = gpu->alloc(gpu->packed_bytes(desc), Purpose::weights).value();
        const StreamedWeight weight{desc, *layout, memory->address(), {place.get(), 0}};
        const std::span<const StreamedWeight> all(&weight, 1);
        const auto work = gpu->alloc(gpu->stream_bytes(all), Purpose::scratch).value();
        const std::span<const std::byte> data(memory->address(),
                                              static_cast<size_t>(memory->size()));
        const auto stream = gpu->open_stream(all, {&data, 1}, {work.get(), 0}).value();
        Bytes arrived(static_cast<size_t>(gpu->packed_bytes(desc)));
        REQUIRE(gpu->write(arrived, {place.get(), 0}).ok());
        REQUIRE(stream->bring(all, 0).ok());
        REQUIRE(stream->await(0).ok());
        REQUIRE(gpu->read({place.get(), 0}, arrived).ok());

        TensorDesc whole;
        const Bytes rows = padded(desc, stored, whole);
        REQUIRE(gpu->packed_bytes(whole) == gpu->packed_bytes(desc));
        CHECK((arrived == loaded(*gpu, whole, rows)));
      }
    }
  }
  CHECK(taken > 60);
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

/// Dense, or with eight experts of which each token has two.
class Model {
 public:
  explicit Model(const std::string& type, const std::string& shape = "tinyllama-1.1b",
                 int32_t layers = 3)
      : path_(dir_.path("streams") + ".gguf") {
    SynthOptions small;
    small.shape = shape;
    small.type = type;
    small.layers = layers;
    small.embedding = small.feed_forward = 256;
    small.heads = 4;
    small.kv_heads = 2;
    small.tokens = 300;
    REQUIRE(synth(path_, small).ok());
  }

  const std::string& path() const { return path_; }
  LoadOptions options(const std::string& on_host, bool stream = true) const {
    LoadOptions options;
    options.device = "cuda";
    options.threads = 1;
    options.context = 512;
    options.batch_rows = 256;
    options.stream_weights = stream;
    if (!on_host.empty()) options.placements.push_back({on_host, "cpu"});
    return options;
  }
  std::unique_ptr<Engine> load(const LoadOptions& options) const {
    auto engine = Engine::load(path_, options);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    return *std::move(engine);
  }

 private:
  test::TempDir dir_;
  std::string path_;
};

std::vector<float> logits(Engine& engine, const std::vector<int32_t>& prompt) {
  const auto session = open(engine);
  std::vector<float> all;
  const Status status = session->evaluate(prompt, [&](int64_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
    return true;
  });
  REQUIRE_MESSAGE(status.ok(), status.message());
  return all;
}

std::vector<float> one_by_one(Engine& engine, const std::vector<int32_t>& prompt) {
  const auto session = open(engine);
  std::vector<float> all;
  for (const int32_t token : prompt) {
    const Status status =
        session->evaluate(std::span(&token, 1), [&](int64_t, std::span<const float> row) {
          all.insert(all.end(), row.begin(), row.end());
          return true;
        });
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  return all;
}

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
    const std::vector<float> alone = one_by_one(*streamed, few);
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

TEST_CASE("streamed weights: memory that cannot be pinned is copied all the same") {
  const Model model("q4_k_m");
  const auto made = [&](bool registers_nothing) {
    const Gpus gpus({TestGpu{.registers_nothing = registers_nothing}});
    const auto engine = model.load(model.options("ffn_(up|gate|down)"));
    return logits(*engine, text(70, 3));
  };
  CHECK((made(true) == made(false)));
}

TEST_CASE(
    "streamed weights: each call that fails comes to a typed failure, and nothing is leaked") {
  const Model model("q8_0", "tinyllama-1.1b", 2);
  LoadOptions load = model.options("ffn_(up|gate|down)");
  load.batch_rows = 33;
  Failing driver;
  const std::vector<int32_t> prompt = text(34, 3);
  const auto run = [&]() -> Result<std::vector<int32_t>> {
    INFER_TRY(const std::unique_ptr<Engine> engine, Engine::load(model.path(), load));
    INFER_TRY(const std::unique_ptr<Session> session, engine->open_session());
    std::vector<int32_t> tokens;
    const auto take = [&](int32_t token, std::string_view) {
      tokens.push_back(token);
      return true;
    };
    INFER_TRY(const GenerateResult made, session->generate(prompt, sampled(3), take));
    CHECK(made.generated_tokens == 3);
    return tokens;
  };
  const std::vector<int32_t> expected = run().value();
  std::set<std::string> failed;
  for (const int64_t n : driver.places(true)) {
    driver.fail_after(n);
    const auto made = run();
    INFO("call " << n << ": " << driver.failed());
    failed.insert(driver.failed());
    CHECK(driver.live() == 0);
    if (made) {
      CHECK(*made == expected);
      continue;
    }
    const StatusCode code = made.error().code();
    CHECK((code == StatusCode::device || code == StatusCode::out_of_memory));
  }
  CHECK(failed.contains("cuStreamWaitEvent"));
  CHECK(failed.contains("cuMemHostRegister"));
}

}  // namespace
}  // namespace infer::cuda
