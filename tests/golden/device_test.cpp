// Whole models on every device but the CPU, which golden_test.cpp is about.
#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "engine/backend/device.h"
#include "infer/infer.hpp"
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
  for (const std::string& device : other_devices()) {
    size_t number = 0;
    for (const GoldenModel& model : golden_models()) {
      INFO(device << " " << model.name);
      EvaluateOptions options;
      options.load.device = device;
      const bool another_type = is_another_type(model);
      // An emulator takes long for each step, and other types have the same steps.
      const bool emulated = device.starts_with("cuda");
      std::vector<size_t> pieces{3};
      if (!emulated || !another_type) pieces.push_back(1);
      if (!another_type) pieces.insert(pieces.end(), {model.tokens.size(), 32});
      std::vector<std::vector<float>> all = evaluate_in_pieces(model, options, pieces);
      if (!another_type && number++ % 4 == 0) {  // the scheduler cuts alike for all models
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

TEST_CASE("devices: what is planned is what is allocated") {
  const KeptDevices kept;
  for (const std::string& device : other_devices()) {
    for (const GoldenModel& model : golden_models()) {
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
