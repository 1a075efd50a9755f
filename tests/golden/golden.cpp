#include "tests/golden/golden.h"

#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/model/open_weights.h"
#include "engine/plan/planner.h"
#include "tests/support.h"

namespace infer::test {
namespace {

/// What rounding to float32 may cost. Gated delta nets make more of a difference than others: each
/// token corrects what the state has of those before it.
double exact_limit_of(const std::string& name) {
  const auto is = [&](const char* family) { return name.find(family) != std::string::npos; };
  return is("qwen35") || is("qwen3next") ? 1e-11 : 1e-12;
}

/// What 8-bit activations may cost, by the type of the weights.
double limit_of(const std::string& name) {
  const std::string type = name.substr(name.find_last_of('-') + 1);
  if (type == "f32") return exact_limit_of(name);
  if (name.find("nf4") != std::string::npos) return 1e-4;
  if (type == "f16" || type == "bf16") return 1.1e-7;
  if (type.ends_with("_k") || type == "iq4_xs") return 2.6e-4;
  return 7.8e-5;
}

void collect(const std::string& dir, std::vector<GoldenModel>& models) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const bool checkpoint = std::filesystem::exists(entry.path() / "config.json");
    if (checkpoint || entry.path().extension() == ".gguf") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  for (const std::filesystem::path& path : paths) {
    const std::string stem = path.stem().string();
    const std::string base = dir + "/" + stem;
    const auto json = nlohmann::json::parse(read_text(base + ".json"));
    models.push_back({stem, path.string(), base + ".f32",
                      json.at("tokens").get<std::vector<int32_t>>(), limit_of(stem),
                      exact_limit_of(stem)});
  }
}

}  // namespace

bool is_another_type(const GoldenModel& model) {
  return model.name.starts_with("llama-") && !model.name.ends_with("-f32") &&
         model.name != "llama-q4_k";
}

std::vector<GoldenModel> golden_models() {
  std::vector<GoldenModel> models;
  collect(data_path("golden"), models);
  REQUIRE(!models.empty());
  return models;
}

namespace {

/// What kernels can differ by in the steps of a model: operations with the inputs and the
/// activation that they have, and operations that follow each other. Of the types of weights it
/// counts only whether they are quantised.
std::set<std::string> kinds_of_steps(const GoldenModel& model) {
  const auto source = open_weights(model.path).value();
  const auto built = read_model(*source).value();
  const WeightTable weights(*source);
  const Graph graph = build_graph(*built, weights, 3, 1, DType::f16, DType::f16).value();
  std::map<ValueId, OpId> makers;
  std::set<std::string> kinds;
  for (const Node& node : graph.nodes()) {
    std::string kind = op_name(node.op());
    if (const auto* glu = std::get_if<op::Glu>(&node.params)) {
      kind += std::to_string(static_cast<int>(glu->kind));
    }
    std::string form = kind;
    for (const ValueId input : node.inputs) {
      form += input == kNoValue                                             ? " -"
              : dtype_info(graph.value(input).desc.type).block_elements > 1 ? " quantised"
                                                                            : " +";
      if (input == kNoValue) continue;
      if (const auto maker = makers.find(graph.storage(input)); maker != makers.end()) {
        kinds.insert(op_name(maker->second) + (" then " + kind));
      }
    }
    kinds.insert(form);
    for (const ValueId output : node.outputs) makers[graph.storage(output)] = node.op();
  }
  return kinds;
}

}  // namespace

std::vector<GoldenModel> golden_models_with_new_steps() {
  std::vector<GoldenModel> models = golden_models();
  if (all_cases()) return models;
  const size_t all = models.size();
  std::set<std::string> known;
  std::erase_if(models, [&](const GoldenModel& model) {
    if (is_another_type(model)) return true;
    const size_t before = known.size();
    known.merge(kinds_of_steps(model));
    return known.size() == before;
  });
  std::fprintf(stderr, "%zu of %zu models; INFER_ALL_CASES=1 takes all\n", models.size(), all);
  return models;
}

bool has_new_steps(const GoldenModel& model) {
  static const std::vector<GoldenModel> models = golden_models_with_new_steps();
  return std::ranges::any_of(models,
                             [&](const GoldenModel& other) { return other.name == model.name; });
}

std::vector<float> evaluate(const GoldenModel& model, EvaluateOptions options) {
  const size_t piece = options.step_by_step ? 1 : model.tokens.size();
  return evaluate_in_pieces(model, std::move(options), {&piece, 1}).front();
}

std::vector<std::vector<float>> evaluate_in_pieces(const GoldenModel& model,
                                                   EvaluateOptions options,
                                                   std::span<const size_t> pieces) {
  options.load.cache_type_k = options.cache;
  options.load.cache_type_v = options.cache_v != nullptr ? options.cache_v : options.cache;
  options.load.output_rows = std::min(options.load.batch_rows, 64);
  const Result<std::unique_ptr<Engine>> engine =
      Engine::Impl::open(model.path, options.load, options.open);
  REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
  std::vector<std::vector<float>> results;
  for (const size_t piece : pieces) {
    const std::unique_ptr<Session> session = (*engine)->open_session().value();
    std::vector<float> all;
    const auto take = [&](int64_t, std::span<const float> logits) {
      all.insert(all.end(), logits.begin(), logits.end());
      return true;
    };
    const std::span<const int32_t> tokens(model.tokens);
    for (size_t at = 0; at < tokens.size(); at += piece) {
      const Status status =
          session->evaluate(tokens.subspan(at, std::min(piece, tokens.size() - at)), take);
      REQUIRE_MESSAGE(status.ok(), status.message());
    }
    results.push_back(std::move(all));
  }
  return results;
}

}  // namespace infer::test
