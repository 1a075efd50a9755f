// Whole models on every device but the CPU, which golden_test.cpp is about.
#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "engine/backend/device.h"
#include "infer/infer.hpp"
#include "infer/jobs.hpp"
#include "tests/adapter_file.h"
#include "tests/devices.h"
#include "tests/golden/golden.h"
#include "tests/kept_devices.h"
#include "tests/support.h"

namespace infer::test {
namespace {

TEST_CASE(
    "devices: logits equal the exact reference within the limit of the weights' type, and "
    "chunks and single steps give the same bits") {
  constexpr double kExact = 1e-10;
  const KeptDevices kept;
  const std::vector<GoldenModel> models = golden_models_with_new_steps();
  for (const std::string& device : other_devices()) {
    size_t number = 0;
    for (const GoldenModel& model : models) {
      INFO(device << " " << model.name);
      EvaluateOptions options;
      options.load.device = device;
      const bool another_type = is_another_type(model);
      const bool first = number++ % 4 == 0;
      // An emulator takes long for each step, and a step of one token is much like one of three.
      const bool emulated = device.starts_with("cuda");
      std::vector<size_t> pieces{3};
      if (!emulated || first) pieces.push_back(1);
      if (!another_type) pieces.insert(pieces.end(), {model.tokens.size(), 32});
      std::vector<std::vector<float>> all = evaluate_in_pieces(model, options, pieces);
      if (!another_type && first) {  // the scheduler cuts alike for all models
        EvaluateOptions chunks = options;
        chunks.load.batch_rows = 3;
        all.push_back(evaluate(model, chunks));
      }
      for (size_t i = 1; i < all.size(); ++i) {
        INFO("result " << i << ": pieces of 1, all, 32, chunks of 3");
        REQUIRE(all[i].size() == all[0].size());
        CHECK(std::memcmp(all[i].data(), all[0].data(), all[0].size() * sizeof(float)) == 0);
      }
      const std::vector<float> exact = read_f32(model.logits);
      const double error = nmse(all[0], exact);
      std::fprintf(stderr, "%-12s %-16s %.3g\n", device.c_str(), model.name.c_str(), error);
      CHECK(error <= std::max(model.limit, kExact));
      if (error <= kExact) continue;
      options.load.exact = true;  // the device rounds activations
      CHECK(nmse(evaluate(model, options), exact) <= kExact);
    }
  }
}

TEST_CASE("devices: adapters give the CPU's logits, and pieces the same bits") {
  constexpr double kNear = 1e-10;
  const TempDir dir;
  const KeptDevices kept;
  for (const std::string name : {"llama-odd-f32", "gpt-oss-f32", "qwen35-f32"}) {
    GoldenModel model{name, data_path("golden/" + name + ".gguf"), "", {1, 9, 4, 7, 2, 11, 5}, 0};
    const std::string first = dir.path(name + ".1"), second = dir.path(name + ".2");
    write_adapter(first, model.path, {.rank = 3});
    write_adapter(second, model.path, {.rank = 16, .alpha = 0, .seed = 50});
    EvaluateOptions options;
    options.load.exact = true;
    const std::vector<float> plain = evaluate(model, options);
    options.load.adapters = {first, second + ":-0.75"};
    const std::vector<float> expected = evaluate(model, options);
    CHECK(nmse(plain, expected) > 1e-3);
    for (const std::string& device : other_devices()) {
      INFO(device << " " << name);
      options.load.device = device;
      options.load.exact = true;
      CHECK(nmse(evaluate(model, options), expected) <= kNear);
      options.load.exact = false;
      const size_t pieces[] = {1, 3, model.tokens.size()};
      const std::vector<std::vector<float>> all = evaluate_in_pieces(model, options, pieces);
      CHECK(all[1] == all[0]);
      CHECK(all[2] == all[0]);
    }
  }
}

/// Keys and values of 64 elements, three pages of prompt, for kernels that small heads do not have.
GoldenModel model_of_wide_heads(const TempDir& dir) {
  SynthOptions shape;
  shape.shape = "tinyllama-1.1b";
  shape.type = "f32";
  shape.layers = 2;
  shape.embedding = shape.feed_forward = 256;
  shape.heads = 4;
  shape.tokens = 300;
  const std::string path = dir.path("wide");
  REQUIRE(synth(path + ".gguf", shape).ok());
  GoldenModel model{"wide", path + ".gguf", "", {}, 0};
  for (int32_t token = 1; token < 170; ++token) model.tokens.push_back(token);
  return model;
}

TEST_CASE("devices: prompts over other caches are near the CPU's, and pieces give the same bits") {
  const TempDir dir;
  const GoldenModel model = model_of_wide_heads(dir);
  const KeptDevices kept;
  for (const std::string cache : {"f16", "q8_0"}) {
    EvaluateOptions options;
    options.cache = cache.c_str();
    options.load.exact = true;
    const std::vector<float> exact = evaluate(model, options);
    options.load.exact = false;
    for (const std::string& device : other_devices()) {
      INFO(device << " " << cache);
      options.load.device = device;
      const size_t pieces[] = {model.tokens.size(), 67};
      const std::vector<std::vector<float>> all = evaluate_in_pieces(model, options, pieces);
      CHECK(nmse(all[0], exact) < 1e-5);  // as for operations: queries of float16
      REQUIRE(all[1].size() == all[0].size());
      CHECK(std::memcmp(all[1].data(), all[0].data(), all[0].size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("devices: what is planned is what is allocated") {
  const KeptDevices kept;
  const std::vector<GoldenModel> models = golden_models_with_new_steps();
  for (const std::string& device : other_devices()) {
    for (const GoldenModel& model : models) {
      INFO(device << " " << model.name);
      LoadOptions options;
      options.device = device;
      options.context = 300;
      const Result<MemoryReport> planned = plan_model(model.path, options);
      REQUIRE(planned.has_value());
      const Result<std::unique_ptr<Engine>> engine = load_watched(model.path, options);
      REQUIRE(engine.has_value());
      const MemoryReport used = (*engine)->memory();
      CHECK(used.weights == planned->weights);
      CHECK(used.kv == planned->kv);
      CHECK(used.activations == planned->activations);
      CHECK(used.scratch == planned->scratch);
    }
  }
}

}  // namespace
}  // namespace infer::test
