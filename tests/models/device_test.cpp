// Whole models on every device but the CPU, which golden_test.cpp is about.
#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "engine/backend/device.h"
#include "infer/infer.hpp"
#include "tests/devices.h"
#include "tests/models/golden.h"
#include "tests/support.h"

namespace infer::test {
namespace {

TEST_CASE("devices: logits equal the exact reference within the limit of the weights' type") {
  constexpr double kExact = 1e-10;
  for (const std::string& device : other_devices()) {
    for (const GoldenModel& model : golden_models()) {
      INFO(device << " " << model.name);
      EvaluateOptions options;
      options.load.device = device;
      const std::vector<float> exact = read_f32(model.logits);
      const double error = nmse(evaluate(model, options), exact);
      std::fprintf(stderr, "%-12s %-16s %.3g\n", device.c_str(), model.name.c_str(), error);
      CHECK(error <= std::max(model.limit, kExact));
      if (error <= kExact) continue;
      options.load.exact = true;  // the device rounds activations
      CHECK(nmse(evaluate(model, options), exact) <= kExact);
    }
  }
}

TEST_CASE("devices: chunks and single steps give the same bits") {
  for (const std::string& device : other_devices()) {
    for (const GoldenModel& model : golden_models()) {
      INFO(device << " " << model.name);
      EvaluateOptions whole;
      whole.load.device = device;
      const std::vector<float> reference = evaluate(model, whole);
      const auto same = [&](const EvaluateOptions& options, const char* what) {
        INFO(what);
        const std::vector<float> logits = evaluate(model, options);
        REQUIRE(logits.size() == reference.size());
        CHECK(std::memcmp(logits.data(), reference.data(), logits.size() * sizeof(float)) == 0);
      };
      for (const int chunk : {3, 32}) {
        EvaluateOptions options = whole;
        options.load.batch_rows = chunk;
        same(options, chunk == 3 ? "chunks of 3" : "chunks of 32");
      }
      EvaluateOptions steps = whole;
      steps.step_by_step = true;
      same(steps, "step by step");
    }
  }
}

TEST_CASE("devices: what is planned is what is allocated") {
  for (const std::string& device : other_devices()) {
    for (const GoldenModel& model : golden_models()) {
      INFO(device << " " << model.name);
      LoadOptions options;
      options.device = device;
      options.context = 300;
      const Result<MemoryReport> planned = plan_model(model.path, options);
      REQUIRE(planned.has_value());
      const Result<std::unique_ptr<Engine>> engine = Engine::load(model.path, options);
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
