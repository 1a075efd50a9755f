// Every path of the shaders on the device at hand, whatever suits it: tunings are forced.
#include "backends/vulkan/tuning.h"

#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "engine/jobs/conformance.h"
#include "tests/models/golden.h"
#include "tests/support.h"

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
  return {{"several subgroups", gpu_like()},
          {"integers", integer},
          {"integers of one subgroup", one_part},
          {"nothing fused", unfused}};
}

/// Devices that are opened while it lives are used so.
class Forced {
 public:
  explicit Forced(const Tuning& tuning) { force_tuning(tuning); }
  ~Forced() { force_tuning(std::nullopt); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
};

bool present() {
  const Result<std::unique_ptr<Device>> device = open_device("vulkan", {});
  if (!device) test::skipped("vulkan: " + device.error().message());
  return device.has_value();
}

/// Whether rounding activations can be forced; a SKIPPED line where it cannot.
bool can_be(const NamedTuning& t) {
  if (!t.tuning.integer) return true;
  const auto instance = Instance::get();
  REQUIRE(instance.has_value());
  const bool can = (*instance)->devices().front().integer_dots;
  if (!can) test::skipped(std::string(t.name) + ": the device has no integer dot products");
  return can;
}

/// Enough of an operation's cases to meet every type and every form of shader.
bool wanted(const std::string& op, const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (op == "matmul") return has("n 7 rows 1") || has("n 50 rows 33") || has("product");
  if (op == "moe_matmul" || op == "head_matmul") return has("rows 3") && !has("rows 33");
  return true;
}

TEST_CASE("tunings: operations") {
  if (!present()) return;
  for (const NamedTuning& t : tunings()) {
    if (!can_be(t)) continue;
    const Forced forced(t.tuning);
    const auto device = open_device("vulkan", {});
    REQUIRE(device.has_value());
    for (const char* name : {"rms_norm", "matmul", "moe_matmul", "head_matmul", "attention"}) {
      int run = 0;
      for (const OpDef* op : all_ops()) {
        if (std::string(op->name) != name) continue;
        std::vector<OpCase> cases;
        op->cases(cases);
        for (const OpCase& c : cases) {
          if (!wanted(name, c.name)) continue;
          INFO(t.name << ": " << name << " " << c.name);
          const Status status = run_case(**device, *op, c, false);
          CHECK_MESSAGE(status.ok(), status.message());
          ++run;
        }
      }
      CHECK(run > 0);
    }
  }
}

TEST_CASE("tunings: exact activations are not rounded") {
  Tuning integer = gpu_like();
  integer.integer = true;
  if (!present() || !can_be({"exact", integer})) return;
  const Forced forced(integer);
  const OpDef& matmul = op_def(OpId::Matmul);
  std::vector<OpCase> cases;
  matmul.cases(cases);
  int rounded = 0;
  for (const OpCase& c : cases) {
    if (!c.name.ends_with("n 50 rows 3")) continue;
    INFO(c.name);
    const auto exact = open_device("vulkan", {.exact = true});
    const auto fast = open_device("vulkan", {});
    REQUIRE(exact.has_value());
    REQUIRE(fast.has_value());
    CHECK(run_case(**exact, matmul, c, true).ok());
    if (!run_case(**fast, matmul, c, true).ok()) ++rounded;  // beyond what exact ones are allowed
  }
  CHECK(rounded >= 6);  // Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, IQ4_NL
}

/// Every form of attention, of experts and of products, and types with and without integers.
const std::vector<std::string> kModels{"llama-q4_0",   "llama-q4_k",      "llama-q8_0",
                                       "llama-f16",    "gemma3-f32",      "gpt-oss-mxfp4",
                                       "qwen3moe-f32", "deepseek2-v3-f32"};

TEST_CASE("tunings: whole models, and the same bits by chunks and steps") {
  if (!present()) return;
  for (const NamedTuning& t : tunings()) {
    if (!can_be(t)) continue;
    const Forced forced(t.tuning);
    for (const test::GoldenModel& model : test::golden_models()) {
      if (std::ranges::find(kModels, model.name) == kModels.end()) continue;
      INFO(t.name << " " << model.name);
      test::EvaluateOptions options;
      options.load.device = "vulkan";
      const std::vector<float> whole = test::evaluate(model, options);
      const double error = test::nmse(whole, test::read_f32(model.logits));
      std::fprintf(stderr, "%-26s %-16s %.3g\n", t.name, model.name.c_str(), error);
      CHECK(error <= (t.tuning.integer ? std::max(model.limit, 1e-10) : 1e-10));
      const auto same = [&](const test::EvaluateOptions& other) {
        const std::vector<float> logits = test::evaluate(model, other);
        REQUIRE(logits.size() == whole.size());
        CHECK(std::memcmp(logits.data(), whole.data(), logits.size() * sizeof(float)) == 0);
      };
      options.load.batch_rows = 3;
      same(options);
      options.step_by_step = true;
      same(options);
    }
  }
}

}  // namespace
}  // namespace infer::vulkan
