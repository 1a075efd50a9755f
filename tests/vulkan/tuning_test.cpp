// Every path of the shaders on the device at hand, whatever suits it.
#include "backends/vulkan/tuning.h"

#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "backends/vulkan/pipelines.h"
#include "engine/jobs/conformance.h"
#include "tests/golden/golden.h"
#include "tests/kept_devices.h"
#include "tests/support.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

struct NamedTuning {
  const char* name;
  Tuning tuning;
};

/// What a GPU takes, with as many subgroups as there may be of a processor's short ones.
Tuning gpu_like() {
  Tuning tuning;
  tuning.parts = 4;
  tuning.groups = 7;          // so that a workgroup goes through several tiles
  tuning.normed_groups = 3;   // likewise
  tuning.vector_columns = 4;  // so that short prompts make tiles
  tuning.single_rows = 4;     // and group places by expert
  return tuning;
}

std::vector<NamedTuning> tunings() {
  Tuning integer = gpu_like();
  integer.integer = true;
  Tuning one_part = integer;
  one_part.parts = 1;
  one_part.tall = 2;
  one_part.handed = true;
  one_part.split_rows = 0;
  one_part.tile = false;
  Tuning unfused = gpu_like();
  unfused.fuse = false;
  unfused.submission = 1;  // each call by itself
  const Tuning matrices = with_matrices(gpu_like());
  Tuning unequal = matrices;
  unequal.fuse = false;
  unequal.narrow_tile = {32, 32, 8, 16};  // whose lanes share rows
  return {{"matrices", matrices},
          {"matrices, nothing fused", unequal},
          {"several subgroups", gpu_like()},
          {"integers", integer},
          {"integers of one subgroup", one_part},
          {"nothing fused", unfused}};
}

/// Whether the device has what a tuning uses; a SKIPPED line where it has not.
bool can_be(const NamedTuning& t) {
  const auto instance = test::watched_instance();
  REQUIRE(instance.has_value());
  const PhysicalDevice& device = (*instance)->devices().front();
  const auto skip = [&](const char* what) {
    test::skipped(std::string(t.name) + ": the device has no " + what);
    return false;
  };
  if (t.tuning.integer && !device.integer_dots) return skip("integer dot products");
  if (t.tuning.matrices && !t.tuning.can_use_matrices(device)) {
    return skip("cooperative matrices of a shape that is known");
  }
  return true;
}

bool has_integer_shader(const std::string& type) {
  return std::ranges::any_of(all_shaders(),
                             [&](const Shader& s) { return "product_int_" + type == s.name; });
}

/// Enough of an operation's cases to meet every type and every form of shader once.
bool wanted(const Tuning& t, const std::string& op, const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool product_op = op == "matmul" || op == "moe_matmul" || op == "head_matmul";
  if (op != "rms_norm" && op != "attention" && !product_op) return false;
  if (op == "attention") return t.split_rows > 0 && !t.integer && t.fuse && has("grouped 8:2");
  if (op == "rms_norm" || has("product")) return true;
  if (!t.fuse) return false;
  if (op == "matmul" && t.matrices) return has("n 50") || has("n 7");
  // The types are the same code in all products: a few are enough, but for tiles, and for the types
  // that have a shader of integers.
  const bool common = has("f32") || has("f16") || has("q4_0") || has("q6_k") || has("iq2_xs");
  const std::string type = name.substr(0, name.find(' '));
  if (op == "matmul" && t.integer && !common && !has_integer_shader(type)) return false;
  if (op == "matmul") return has(t.tile ? "n 50 rows 33" : "n 7 rows 1");
  if (op == "moe_matmul" && t.single_rows < 33 && has("rows 33")) return common;
  return common && has("rows 3") && !has("rows 33");
}

TEST_CASE("tunings: operations") {
  if (!present()) return;
  for (const NamedTuning& t : tunings()) {
    if (!can_be(t)) continue;
    const auto device = open_tuned(t.tuning);
    REQUIRE(device.has_value());
    CHECK((*device)->two_classes() == t.tuning.matrices);
    const SelftestReport report = run_conformance(
        **device, false,
        [&](const OpDef& op, const OpCase& c) { return wanted(t.tuning, op.name, c.name); });
    for (const std::string& failure : report.failures) {
      FAIL_CHECK(std::string(t.name) << ": " << failure);
    }
    CHECK(report.unsupported == 0);
    CHECK(report.passed > 20);
  }
}

TEST_CASE("tunings: exact activations are not rounded") {
  Tuning integer = gpu_like();
  integer.integer = true;
  if (!present() || !can_be({"exact", integer})) return;
  const auto exact = open_tuned(integer, true);
  const auto fast = open_tuned(integer);
  REQUIRE(exact.has_value());
  REQUIRE(fast.has_value());
  const OpDef& matmul = op_def(OpId::Matmul);
  std::vector<OpCase> cases;
  matmul.cases(cases);
  int rounded = 0;
  for (const OpCase& c : cases) {
    const std::string type = c.name.substr(0, c.name.find(' '));
    if (!c.name.ends_with("n 50 rows 3") || !has_integer_shader(type)) continue;
    INFO(c.name);
    CHECK(run_case(**exact, matmul, c, true).ok());
    if (!run_case(**fast, matmul, c, true).ok()) ++rounded;  // beyond what exact ones are allowed
  }
  CHECK(rounded >= 6);  // Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, IQ4_NL
}

TEST_CASE("two devices of one process are used in different ways at once") {
  if (!present()) return;
  Tuning unfused = gpu_like();
  unfused.fuse = false;
  const std::unique_ptr<Device> fusing = open_tuned(gpu_like()).value();
  const std::unique_ptr<Device> plain = open_tuned(unfused).value();
  const std::unique_ptr<Device> usual = test::open_watched("vulkan").value();
  OpCase c;
  CaseBuilder builder(c, 1);
  GraphBuilder& g = builder.graph();
  const ValueId x = builder.activations(64);
  const ValueId y =
      g.add(op::Matmul{}, {x, builder.weight(DType::f32, 64, 64), kNoValue, kNoValue});
  g.output(g.add(op::Add{}, {x, y}));
  const Graph graph = builder.finish().value();
  const Segment segment{&graph, 0, 2};
  CHECK_FALSE(fusing->phases(segment)[0].stored);
  CHECK(plain->phases(segment)[0].stored);
  CHECK_FALSE(usual->phases(segment)[0].stored);
}

/// Every form of attention, of experts and of products, and types with and without integers.
const std::vector<std::string> kModels{"llama-q4_0",   "llama-q4_k",      "llama-q8_0",
                                       "llama-f16",    "gemma3-f32",      "gpt-oss-mxfp4",
                                       "qwen3moe-f32", "deepseek2-v3-f32"};

/// Models that a tuning computes otherwise than one before it.
bool wanted_model(const Tuning& t, const std::string& name) {
  if (std::ranges::find(kModels, name) == kModels.end()) return false;
  const bool plain = name.ends_with("f32") || name.ends_with("f16");  // never rounded
  // The two differ from llama-q4_k in their shaders of integers alone.
  if (name == "llama-q4_0" || name == "llama-q8_0") return t.integer && t.tile;
  if (t.integer && t.tile) return !plain;
  return (t.fuse && !t.integer) || name == "llama-q4_k" || name == "gpt-oss-mxfp4" ||
         name == "qwen3moe-f32";
}

TEST_CASE("tunings: whole models, and the same bits by chunks and steps") {
  if (!present()) return;
  const test::KeptDevices kept;
  for (const NamedTuning& t : tunings()) {
    if (!can_be(t)) continue;
    for (const test::GoldenModel& model : test::golden_models()) {
      if (!wanted_model(t.tuning, model.name)) continue;
      INFO(std::string(t.name) << " " << model.name);
      test::EvaluateOptions options;
      options.load.device = "vulkan";
      options.open = test::opener({.tuning = t.tuning});
      const size_t pieces[] = {model.tokens.size(), 3, 1};
      const std::vector<std::vector<float>> all = test::evaluate_in_pieces(model, options, pieces);
      const std::vector<float>& whole = all[0];
      const double error = test::nmse(whole, test::read_f32(model.logits));
      std::fprintf(stderr, "%-26s %-16s %.3g\n", t.name, model.name.c_str(), error);
      const double limit = t.tuning.integer ? std::max(model.limit, 1e-10) : 1e-10;
      CHECK(error <= limit + (t.tuning.matrices ? 1e-5 : 0));
      for (const std::vector<float>& some : all) {
        REQUIRE(some.size() == whole.size());
        CHECK(std::memcmp(some.data(), whole.data(), some.size() * sizeof(float)) == 0);
      }
    }
  }
}

/// A product of random data with so many rows, of which the first are the same for any number.
std::vector<float> products(Device& on, DType type, int64_t rows) {
  OpCase c;
  c.rows = rows;
  CaseBuilder builder(c, 7);
  const ValueId w = builder.weight(type, 512, 50);
  const ValueId x = builder.activations(512);
  const ValueId y = builder.graph().add(op::Matmul{}, {x, w, kNoValue, kNoValue});
  return computed(on, builder, y, rows);
}

TEST_CASE("rows that are longer than a staging buffer holds of a group") {
  if (!present()) return;
  const std::unique_ptr<Device> device = test::open_watched("vulkan").value();
  for (const int64_t width : {70021, 31}) {
    OpCase c;
    c.rows = 40;
    CaseBuilder builder(c, 3);
    const ValueId table = builder.weight(DType::bf16, width, 37);
    const ValueId tokens = builder.indices(1, 37);
    const ValueId y = builder.graph().add(op::Embed{}, {tokens, table});
    const std::vector<float> found = computed(*device, builder, y, c.rows);
    const std::byte* stored = builder.weights()[0].data();
    const auto* ids = reinterpret_cast<const int32_t*>(builder.inputs()[0].data());
    int64_t wrong = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        uint32_t bits = 0;
        std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, stored + (ids[r] * width + i) * 2, 2);
        float value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        if (found[static_cast<size_t>(r * width + i)] != value) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("tunings: sequences that decode together get the bits they get alone") {
  if (!present()) return;
  const test::KeptDevices kept;
  for (const NamedTuning& t : tunings()) {
    if (!can_be(t)) continue;
    INFO(std::string(t.name));
    const std::unique_ptr<Device> device = open_tuned(t.tuning).value();
    for (const DType type : {DType::q4_0, DType::q6_k, DType::f16}) {
      INFO(std::string(dtype_info(type).ident));
      const std::vector<float> all = products(*device, type, 33);
      for (const int64_t rows : {1, 2, 3, 16}) {
        const std::vector<float> some = products(*device, type, rows);
        CHECK(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace infer::vulkan
