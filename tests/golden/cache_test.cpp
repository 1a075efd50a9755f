// The 4-bit cache: what it costs in logits, that its keys are rotated, and that no way of computing
// changes a bit of it.
#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "engine/model/builder.h"
#include "engine/ops/op.h"
#include "engine/session/engine_impl.h"
#include "infer/jobs.hpp"
#include "tests/golden/golden.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// What rounding to Q4_0 takes of normally distributed values, as normalised squared error
/// (tests/ops/hadamard_test.cpp).
constexpr double kRounding = 7.5e-3;

/// Were there nothing in the stream but the mixes of values, each layer would add the rounding of
/// its values. That of keys moves weights among values that are alike in size, by less than that
/// while scores are moderate, and what goes past attention dilutes both.
double limit_of(const GoldenModel& model) {
  const auto opened = OpenedModel::open(model.path, {});
  return kRounding * static_cast<double>(opened->model->info().layers);
}

/// Whether every key and value is whole blocks of Q4_0.
bool takes_q4_0(const ModelInfo& info) {
  return std::ranges::all_of(info.kv_layers, [](const KvLayerShape& shape) {
    return shape.k_dim % 32 == 0 && shape.v_dim % 32 == 0;
  });
}

std::vector<GoldenModel> models_with_q4_0() {
  std::vector<GoldenModel> models;
  for (const GoldenModel& model : golden_models()) {
    const auto opened = OpenedModel::open(model.path, {});
    REQUIRE_MESSAGE(opened.has_value(), model.name);
    if (takes_q4_0(opened->model->info())) models.push_back(model);
  }
  REQUIRE(!models.empty());
  return models;
}

int64_t rotations(const OpenedModel& opened, DType k_type, DType v_type) {
  GraphBuilder graph(infer_outputs, 1, 1, {opened.model->info().kv_layers, k_type, v_type});
  ModelBuilder builder(graph, *opened.weights, opened.model->info());
  opened.model->build(builder);
  const Graph built = graph.finish().value();
  return std::ranges::count(built.nodes(), OpId::Hadamard, &Node::op);
}

}  // namespace

TEST_CASE("keys are rotated for a cache of Q4_0 keys and for no other") {
  for (const GoldenModel& model : golden_models()) {
    CAPTURE(model.name);
    const OpenedModel opened = OpenedModel::open(model.path, {}).value();
    int64_t expected = 0;
    for (const KvLayerShape& shape : opened.model->info().kv_layers) {
      const int64_t block = shape.k_dim & -shape.k_dim;
      if (block < 32 || (shape.v_in_k && shape.v_dim % block != 0)) continue;
      expected += shape.v_in_k ? 3 : 2;  // q, k, and the mix of values turned back
    }
    CHECK(rotations(opened, DType::q4_0, DType::f16) == expected);
    for (const DType type : {DType::f32, DType::f16, DType::q8_0}) {
      CHECK(rotations(opened, type, DType::q4_0) == 0);
    }
  }
}

TEST_CASE("a cache of Q4_0 changes logits within its limit") {
  for (const GoldenModel& model : models_with_q4_0()) {
    CAPTURE(model.name);
    EvaluateOptions options;
    options.load.exact = true;
    options.cache = "q4_0";
    const double error = nmse(evaluate(model, options), read_f32(model.logits));
    std::fprintf(stderr, "%-16s %.3g\n", model.name.c_str(), error);
    CHECK(error <= limit_of(model));
  }
}

TEST_CASE("values that lie in rotated keys are turned back") {
  const TempDir dir;
  SynthOptions shape;
  shape.shape = "deepseek-v2-lite";  // keys of 576 elements, of which 512 are the value
  shape.type = "f32";
  shape.layers = 1;
  shape.embedding = shape.feed_forward = 128;
  shape.heads = 4;
  shape.tokens = 300;
  const std::string path = dir.path("latent");
  REQUIRE(synth(path + ".gguf", shape).ok());
  CHECK(rotations(OpenedModel::open(path + ".gguf", {}).value(), DType::q4_0, DType::q4_0) == 3);
  GoldenModel model{"latent", path + ".gguf", "", {}, 0, 0};
  for (int32_t token = 1; token < 100; ++token) model.tokens.push_back(token);
  EvaluateOptions options;
  options.load.exact = true;
  const std::vector<float> exact = evaluate(model, options);
  for (const char* type_v : {"q4_0", "f32"}) {  // within the keys, and apart from them
    CAPTURE(type_v);
    options.cache = "q4_0";
    options.cache_v = type_v;
    // Not turned back, what is mixed would have nothing to do with the values: an error of 2.
    CHECK(nmse(evaluate(model, options), exact) < 0.1);
  }
}

TEST_CASE("Q4_0 cache: threads, chunks and single steps give the same bits") {
  for (const GoldenModel& model : models_with_q4_0()) {
    CAPTURE(model.name);
    const auto run = [&](int threads, int chunk) {
      EvaluateOptions options;
      options.cache = "q4_0";
      options.load.threads = threads;
      options.load.batch_rows = chunk;
      return evaluate(model, options);
    };
    const std::vector<float> reference = run(1, 512);
    for (const auto& [threads, chunk] : {std::pair{2, 512}, {7, 3}, {2, 1}}) {
      CAPTURE(threads);
      const std::vector<float> logits = run(threads, chunk);
      REQUIRE(logits.size() == reference.size());
      CHECK(std::memcmp(logits.data(), reference.data(), logits.size() * sizeof(float)) == 0);
    }
  }
}
