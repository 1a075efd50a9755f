// A small trained model says what it says: greedy text, the same however it is computed.
#include <doctest.h>

#include <nlohmann/json.hpp>

#include "infer/infer.hpp"
#include "tests/devices.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::unique_ptr<Engine> open(const std::string& path, const LoadOptions& load) {
  Result<std::unique_ptr<Engine>> engine = Engine::load(path, load);
  REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
  return *std::move(engine);
}

std::string complete(Engine& engine, const std::string& prompt, const GenerateOptions& options) {
  const auto tokens = engine.tokenize(prompt, TokenizeOptions{});
  REQUIRE(tokens.has_value());
  const std::unique_ptr<Session> session = engine.open_session().value();
  std::string text;
  const auto result = session->generate(*tokens, options, [&](int32_t, std::string_view piece) {
    text += piece;
    return true;
  });
  REQUIRE(result.has_value());
  return text;
}

}  // namespace

TEST_CASE("the greedy text of a trained model is the recorded one") {
  // Recorded in float64 by tests/golden/reference/make_continuations.py.
  const auto recorded = nlohmann::json::parse(read_text(data_path("demo_continuations.json")));
  std::vector<LoadOptions> loads(4);
  for (size_t i = 0; i < 3; ++i) loads[i].threads = std::vector{1, 2, 7}[i];
  loads[3].mmap = true;
  for (const std::string& device : other_devices()) {
    for (const int32_t layers : {-1, 2}) {
      loads.emplace_back();
      loads.back().device = device;
      loads.back().gpu_layers = layers;
    }
  }
  for (const LoadOptions& load : loads) {
    INFO(load.device << ", " << load.threads << " threads, " << load.gpu_layers << " layers");
    const std::unique_ptr<Engine> engine = open(kDemo, load);
    for (const nlohmann::json& text : recorded) {
      const size_t count = text.at("tokens").size();
      // Devices that are emulated take long.
      const bool first = &text == &recorded.front();
      if (!load.device.empty() && count > 10 && !(first && load.gpu_layers < 0)) continue;
      const auto prompt = text.at("prompt").get<std::string>();
      INFO(prompt);
      CHECK(engine->tokenize(prompt, {}).value() ==
            text.at("prompt_tokens").get<std::vector<int32_t>>());
      GenerateOptions options;
      options.max_tokens = static_cast<int32_t>(count);
      options.sampling.temperature = 0.0f;
      CHECK(complete(*engine, prompt, options) == text.at("text").get<std::string>());
    }
  }
}

TEST_CASE("sampled text depends on the seed alone") {
  GenerateOptions options;
  options.max_tokens = 60;
  options.ignore_end = true;
  options.sampling.seed = 11;
  options.sampling.temperature = 1.2f;
  options.sampling.repeat_penalty = 1.1f;
  LoadOptions load;
  load.threads = 1;
  const std::string text = complete(*open(kDemo, load), "The sea", options);
  load.threads = 3;
  load.batch_rows = 2;
  CHECK(complete(*open(kDemo, load), "The sea", options) == text);
  load.isa = "scalar";
  CHECK(complete(*open(kDemo, load), "The sea", options) == text);
  options.sampling.seed = 12;
  CHECK(complete(*open(kDemo, load), "The sea", options) != text);
}
