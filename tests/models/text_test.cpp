// A small trained model says what it says: greedy text, the same however it is computed.
#include <doctest.h>

#include <nlohmann/json.hpp>

#include "infer/infer.hpp"
#include "tests/devices.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string complete(const std::string& path, const LoadOptions& load, const std::string& prompt,
                     const GenerateOptions& options) {
  const Result<std::unique_ptr<Engine>> engine = Engine::load(path, load);
  REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
  const auto tokens = (*engine)->tokenize(prompt, TokenizeOptions{});
  REQUIRE(tokens.has_value());
  const std::unique_ptr<Session> session = (*engine)->open_session().value();
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
  const auto model = shared_path("real/dreams-260k.gguf");
  if (!model) return;
  const auto recorded = nlohmann::json::parse(read_text(*shared_path("real/dreams-260k.json")));
  GenerateOptions options;
  options.max_tokens = recorded.at("max_tokens").get<int32_t>();
  options.sampling.temperature = 0.0f;
  const auto prompt = recorded.at("prompt").get<std::string>();
  const auto expected = recorded.at("text_with_prompt").get<std::string>();
  for (const int threads : {1, 2, 7}) {
    LoadOptions load;
    load.threads = threads;
    CHECK(prompt + complete(*model, load, prompt, options) == expected);
  }
  LoadOptions mapped;
  mapped.mmap = true;
  CHECK(prompt + complete(*model, mapped, prompt, options) == expected);
  for (const std::string& device : other_devices()) {
    for (const int32_t layers : {-1, 2}) {
      INFO(device << " " << layers);
      LoadOptions load;
      load.device = device;
      load.gpu_layers = layers;
      CHECK(prompt + complete(*model, load, prompt, options) == expected);
    }
  }
}

TEST_CASE("sampled text depends on the seed alone") {
  const auto model = shared_path("real/dreams-260k.gguf");
  if (!model) return;
  GenerateOptions options;
  options.max_tokens = 60;
  options.sampling.seed = 11;
  options.sampling.repeat_penalty = 1.1f;
  LoadOptions load;
  load.threads = 1;
  const std::string text = complete(*model, load, "The sea", options);
  load.threads = 3;
  load.batch_rows = 2;
  CHECK(complete(*model, load, "The sea", options) == text);
  options.sampling.seed = 12;
  CHECK(complete(*model, load, "The sea", options) != text);
}
