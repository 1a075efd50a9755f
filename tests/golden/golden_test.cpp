// Whole models against exact logits, and the promise that no way of computing changes a bit.
#include <doctest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/session/engine_impl.h"
#include "infer/infer.hpp"
#include "tests/golden/golden.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("logits equal the exact reference within the limit of the weights' type") {
  for (const GoldenModel& model : golden_models()) {
    INFO(model.name);
    const std::vector<float> logits = evaluate(model, {});
    const double error = nmse(logits, read_f32(model.logits));
    std::fprintf(stderr, "%-16s %.3g\n", model.name.c_str(), error);
    CHECK(error <= model.limit);
  }
}

TEST_CASE("float32 activations are exact to rounding whatever the weights") {
  for (const GoldenModel& model : golden_models()) {
    INFO(model.name);
    EvaluateOptions options;
    options.load.exact = true;
    CHECK(nmse(evaluate(model, options), read_f32(model.logits)) <= model.exact);
  }
}

TEST_CASE("threads, chunks and single steps give the same bits") {
  for (const GoldenModel& model : golden_models()) {
    INFO(model.name);
    const bool every_way = has_new_steps(model);
    EvaluateOptions whole;
    whole.load.threads = 1;
    const std::vector<float> reference = evaluate(model, whole);
    const auto same = [&](const EvaluateOptions& options, const char* what) {
      INFO(what);
      const std::vector<float> logits = evaluate(model, options);
      REQUIRE(logits.size() == reference.size());
      CHECK(std::memcmp(logits.data(), reference.data(), logits.size() * sizeof(float)) == 0);
    };
    for (const int threads : {2, 7}) {
      if (!every_way) continue;
      EvaluateOptions options;
      options.load.threads = threads;
      same(options, threads == 2 ? "2 threads" : "7 threads");
    }
    for (const int chunk : {1, 3, 32}) {
      if (!every_way && chunk != 3) continue;
      EvaluateOptions options;
      options.load.threads = 2;
      options.load.batch_rows = chunk;
      same(options, chunk == 1 ? "chunks of 1" : chunk == 3 ? "chunks of 3" : "chunks of 32");
    }
    if (!every_way) continue;
    EvaluateOptions steps;
    steps.step_by_step = true;
    same(steps, "step by step");
  }
}

TEST_CASE("what is planned is what is allocated, and one program serves every decode step") {
  for (const GoldenModel& model : golden_models()) {
    INFO(model.name);
    for (const int64_t context : {64, 300, 2048}) {
      if (context != 300 && !has_new_steps(model)) continue;
      const bool positions = model.name == "gpt2-f32" || model.name == "starcoder-f32";
      if (context > 320 && positions) continue;  // more than it has
      LoadOptions options;
      options.context = context;
      const Result<MemoryReport> planned = plan_model(model.path, options);
      REQUIRE(planned.has_value());
      const Result<std::unique_ptr<Engine>> engine = load_watched(model.path, options);
      REQUIRE(engine.has_value());
      const MemoryReport used = (*engine)->memory();
      CHECK(used.weights == planned->weights);
      CHECK(used.kv == planned->kv);
      CHECK(used.activations == planned->activations);
      CHECK(used.scratch == planned->scratch);

      const std::unique_ptr<Session> session = (*engine)->open_session().value();
      GenerateOptions generate;
      generate.max_tokens = 40;
      generate.ignore_end = true;
      const std::vector<int32_t> prompt{1, 5, 9};
      const auto result =
          session->generate(prompt, generate, [](int32_t, std::string_view) { return true; });
      REQUIRE(result.has_value());
      CHECK(result->generated_tokens == 40);
      CHECK(EngineAccess::impl(**engine).executor->programs() ==
            2);  // the prompt's and that of single tokens
    }
  }
}
