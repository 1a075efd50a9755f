// Shaders through the compiler of real GPUs, without the GPU. What products cost is held to the
// table in tools/bench/RESULTS.md, which tools/bench/shaders.sh prints.
#include <doctest.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "engine/jobs/conformance.h"
#include "infer/jobs.hpp"
#include "tests/golden/golden.h"
#include "tests/shaders/isa.h"
#include "tests/shaders/null_device.h"
#include "tests/support.h"
#include "tests/text_attention_run.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

/// The driver that the table in RESULTS.md was made by.
constexpr std::string_view kTableRelease = "Mesa 22.3.6";

double number(const std::string& text) {
  double value = 0;  // whatever the locale
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The device, or null and a SKIPPED line.
std::shared_ptr<Instance> compiler() {
  const Result<std::shared_ptr<Instance>> instance = null_instance();
  const char* const family = std::getenv("RADV_FORCE_FAMILY");
  if (family == nullptr || !instance || (*instance)->devices().empty() ||
      (*instance)->devices().front().description.find(family) == std::string::npos) {
    test::skipped(
        "no driver of Vulkan that compiles for absent AMD GPUs (Debian: "
        "mesa-vulkan-drivers; RADV_FORCE_FAMILY names the family)");
    return nullptr;
  }
  return *instance;
}

int64_t statistic(const CompiledShader& shader, const std::string& name) {
  const auto found = shader.statistics.find(name);
  REQUIRE(found != shader.statistics.end());
  return found->second;
}

/// The driver's release: what it makes of a shader is the same in all runs of one.
std::string release(const PhysicalDevice& device) {
  const std::string& text = device.description;
  const size_t at = text.find("Mesa ");
  return at == std::string::npos ? "" : text.substr(at);
}

/// A product of 64 rows and 4096 elements with so many columns, compiled. `name`: of its shader.
CompiledShader product(const std::shared_ptr<Instance>& instance, DType type, int64_t columns,
                       Roles roles, std::string* name) {
  // One that has compiled nothing yet.
  const auto device = test::opener({.instance = instance})("vulkan:0", {});
  REQUIRE(device.has_value());
  OpCase c;
  c.rows = columns;
  CaseBuilder builder(c, 1);
  const ValueId y = builder.graph().add(
      op::Matmul{},
      {builder.activations(4096), builder.weight(type, 4096, 64), kNoValue, kNoValue});
  forget_shaders();
  builder.graph().output(y);
  const Graph graph = builder.finish().value();
  computed(**device, graph, y, columns, builder.weights(), builder.inputs(), roles);
  for (const auto& [key, shader] : compiled_shaders()) {
    const auto begins = [&](const char* with) { return key.first.starts_with(with); };
    if (!begins("product_") && !begins("tile_") && !begins("matrix_")) continue;
    *name = key.first;
    return shader;
  }
  FAIL("no product was compiled");
  return {};
}

/// A line of the table.
struct Cost {
  std::string family, shader;
  int64_t columns = 0;
  double instructions = 0;  ///< of vectors, for 32 weights of a row and all columns
  double share = 0;         ///< of them that multiply and add, in per cent
  int64_t in_flight = 0;    ///< bytes of a row that loads wait for
  int64_t registers = 0, waves = 0;

  std::string text() const {
    return fmt::format("| {} | {} | {} | {:.1f} | {:.0f} | {} | {} | {} |", family, shader, columns,
                       instructions, share, in_flight, registers, waves);
  }
};

Cost cost_of(const std::shared_ptr<Instance>& instance, DType type, int64_t columns, Roles roles) {
  constexpr int64_t kTileRows = 128, kTileColumns = 32, kPiece = 32;  // weights/tile.comp
  constexpr int64_t kAhead = 4;                                       // weights/product.comp
  const PhysicalDevice& device = instance->devices().front();
  const uint32_t subgroup = device.subgroup;
  const int64_t parts = Tuning::of(device).parts;  // subgroups of a workgroup that share a row
  Cost cost;
  const CompiledShader shader = product(instance, type, columns, roles, &cost.shader);
  cost.family = std::getenv("RADV_FORCE_FAMILY");
  cost.columns = columns;
  const bool tiled = cost.shader.starts_with("tile_");
  const bool integer = cost.shader.find("_int_") != std::string::npos;
  const LoopCost loop = inner_loop(shader.code, kPiece / 4);
  REQUIRE(loop.issued() > 0);
  cost.registers = statistic(shader, "VGPRs");
  cost.waves = statistic(shader, "Subgroups per SIMD");
  CHECK(statistic(shader, "Spilled VGPRs") == 0);
  CHECK(statistic(shader, "Scratch size") == 0);
  if (cost.shader.starts_with("matrix_")) {
    const auto beside = static_cast<double>(loop.vector + loop.dots);
    const auto all = static_cast<double>(loop.issued());
    cost.instructions = beside;
    cost.share = 100 * (all - beside) / all;
    cost.in_flight = loop.in_flight;
    return cost;
  }
  // Of one lane: results of tile.comp, or pieces of product.comp.
  const int64_t results = kTileColumns;  // for each of as many lanes as rows
  const int64_t pieces = integer && !tiled ? kAhead : 1;
  const double products =
      static_cast<double>(tiled ? results : columns) * static_cast<double>(pieces);
  const double useful = integer ? products * kPiece / 4 : products * kPiece;
  const double passes = static_cast<double>(tiled ? kTileRows / subgroup : pieces);
  cost.instructions = static_cast<double>(loop.issued()) / passes;
  cost.share = 100 * useful / static_cast<double>(loop.issued());
  cost.in_flight = loop.in_flight * (tiled ? 1 : parts);
  return cost;
}

/// The table's lines of a family.
std::vector<Cost> stored_costs(const std::string& family) {
  std::vector<Cost> costs;
  std::ifstream lines(std::string(INFER_SOURCE_DIR) + "/tools/bench/RESULTS.md");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| " + family + " | ")) continue;
    std::vector<std::string> cells;
    for (size_t at = 2; at < line.size();) {
      const size_t end = std::min(line.find(" |", at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end + 3;
    }
    REQUIRE(cells.size() == 8);
    costs.push_back({cells[0], cells[1], std::stoll(cells[2]), number(cells[3]), number(cells[4]),
                     std::stoll(cells[5]), std::stoll(cells[6]), std::stoll(cells[7])});
  }
  return costs;
}

/// What holds of everything that was compiled.
void check_shaders() {
  CHECK_FALSE(compiled_shaders().empty());
  for (const auto& [key, shader] : compiled_shaders()) {
    INFO(key.first);
    CHECK(key.first != "unknown");
    CHECK_FALSE(shader.code.empty());
    CHECK(statistic(shader, "Spilled VGPRs") == 0);
    CHECK(statistic(shader, "Scratch size") == 0);
  }
}

bool was_compiled(const std::string& begin) {
  return std::ranges::any_of(compiled_shaders(), [&](const auto& shader) {
    return shader.first.first.starts_with(begin);
  });
}

bool uses_matrices(const Instance& instance) {
  return Tuning::of(instance.devices().front()).matrices;
}

TEST_CASE("shaders: pipelines of the golden models are compiled for this family, and none spills") {
  const auto instance = compiler();
  if (instance == nullptr) return;
  // The shaders of all types of weights are compiled by the case with the table of costs.
  for (const test::GoldenModel& model : test::golden_models_with_new_steps()) {
    INFO(model.name);
    test::EvaluateOptions options;
    options.load.device = "vulkan:0";
    options.open = test::opener({.instance = instance});
    // The device computes nothing: a processor cannot go on with what it gives.
    const auto engine = Engine::Impl::open(model.path, options.load, options.open);
    REQUIRE(engine.has_value());
    const MemoryReport memory = (*engine)->memory();
    if (std::ranges::any_of(memory.devices, [](const DeviceMemoryReport& device) {
          return device.device == "cpu" && !device.computes.empty();
        })) {
      continue;
    }
    // Most have 48 tokens: single ones, some and many at once.
    const size_t pieces[] = {3, 47};
    test::evaluate_in_pieces(model, options, pieces);
  }
  CHECK(compiled_shaders().size() > 100);
  check_shaders();
}

TEST_CASE(
    "shaders: those of the benchmarks' shapes are compiled for this family, and none spills") {
  const auto instance = compiler();
  if (instance == nullptr) return;
  const std::pair<const char*, const char*> models[] = {
      {"llama-24m", "q4_0"}, {"tinyllama-1.1b", "q4_0"}, {"llama-3.1-8b", "q4_k_m"}};
  forget_shaders();
  for (const auto& [shape, type] : models) {
    INFO(shape);
    const test::TempDir folder;
    test::GoldenModel model;
    model.path = folder.path("model.gguf");
    model.tokens.resize(300, 1);
    SynthOptions synthetic{.shape = shape, .type = type};
    synthetic.layers = 1;
    synthetic.tokens = 512;
    REQUIRE(synth(model.path, synthetic).ok());
    for (const char* cache : {"f32", "f16"}) {
      test::EvaluateOptions options;
      options.load.device = "vulkan:0";
      options.cache = cache;
      options.open = test::opener({.instance = instance});
      const size_t pieces[] = {1, 4, model.tokens.size()};
      test::evaluate_in_pieces(model, options, pieces);
    }
  }
  check_shaders();
  CHECK(was_compiled("matrix_attention_") == uses_matrices(*instance));
}

/// Small models have small states and heads; their sizes are constants of the shaders.
TEST_CASE("shaders: scans and attention among texts do not spill with heads of usual sizes") {
  const auto instance = compiler();
  if (instance == nullptr) return;
  const auto device = test::opener({.instance = instance})("vulkan:0", {});
  REQUIRE(device.has_value());
  forget_shaders();
  const auto wanted = [](const OpDef& op, const OpCase& c) {
    for (const char* name : {"4:2 heads of 128 x 128 rows 2 ", "2:1 heads of 256 x 64 rows 3 ",
                             "1:1 heads of 16 x 200 by element rows 2 ", "large heads rows 2 ",
                             "grouped 8:2 rows 2 "}) {
      if (c.name.starts_with(name)) {
        return op.id == OpId::DeltaScan || op.id == OpId::SsmScan || op.id == OpId::TextAttention;
      }
    }
    return false;
  };
  const SelftestReport report = run_conformance(**device, false, wanted);
  CHECK(report.passed + report.failed == 5);  // the device computes nothing: all fail
  CHECK(report.unsupported == 0);
  CHECK(compiled_shaders().size() >= 5);
  if (uses_matrices(*instance)) {
    for (const test::TextHeads& heads : test::kTextHeads) {
      const std::vector<int32_t> lengths{70};
      REQUIRE(test::Texts(heads).run(**device, lengths, 0, Roles::prompt).has_value());
    }
    CHECK(was_compiled("matrix_text_attention_"));
  }
  check_shaders();
}

TEST_CASE("shaders: a norm's loads wait for none of each other") {
  const auto instance = compiler();
  if (instance == nullptr) return;
  const auto device = test::opener({.instance = instance})("vulkan:0", {});
  REQUIRE(device.has_value());
  OpCase c;
  c.rows = 1;
  CaseBuilder builder(c, 1);
  const ValueId y = builder.graph().add(
      op::RmsNorm{.eps = 1e-5f}, {builder.activations(4096), builder.weight(DType::f32, 4096, 1)});
  forget_shaders();
  computed(**device, builder, y, 1);
  for (const auto& [key, shader] : compiled_shaders()) {
    if (key.first != "rms_norm") continue;
    CHECK(inner_loop(shader.code, 1).in_flight >= 2 * 4 * 4);  // four values, four weights
    return;
  }
  FAIL("no norm was compiled");
}

TEST_CASE("shaders: products cost no more than the table says") {
  const auto instance = compiler();
  if (instance == nullptr) return;
  const std::string family = std::getenv("RADV_FORCE_FAMILY");
  const bool prints = std::getenv("INFER_PRINT_COSTS") != nullptr;
  std::vector<Cost> stored = stored_costs(family);
  const std::string made_by = release(instance->devices().front());
  if (!prints && made_by != kTableRelease) {
    test::skipped("the table of shaders is that of " + std::string(kTableRelease) +
                  ", and this driver is " + made_by);
    return;
  }
  for (const DType type : {DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k, DType::q8_0,
                           DType::iq4_nl, DType::nf4, DType::bf16}) {
    for (const int64_t columns : {1, 4, 8, 32, 512}) {
      const bool matrices = columns == 512;
      if (matrices && !instance->devices().front().matrices.given()) continue;
      const Cost cost =
          cost_of(instance, type, columns, matrices ? Roles::prompt : Roles::generated);
      INFO(cost.text());
      if (prints) {
        std::printf("%s\n", cost.text().c_str());
        continue;
      }
      const auto before = std::ranges::find_if(stored, [&](const Cost& s) {
        return s.shader == cost.shader && s.columns == cost.columns;
      });
      REQUIRE(before != stored.end());
      constexpr double kRounding = 0.051;
      CHECK(cost.instructions <= before->instructions + kRounding);
      CHECK(cost.in_flight >= before->in_flight);
      CHECK(cost.waves >= before->waves);
      stored.erase(before);
    }
  }
  CHECK((prints || stored.empty()));
}

}  // namespace
}  // namespace infer::vulkan
