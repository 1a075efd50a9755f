// Models whose layers are shared out between the CPU and other devices.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "engine/backend/device.h"
#include "infer/infer.hpp"
#include "tests/devices.h"
#include "tests/golden/golden.h"
#include "tests/kept_devices.h"
#include "tests/support.h"

namespace infer::test {
namespace {

/// A device besides the CPU; empty where there is none.
std::string other_device() {
  const std::vector<std::string> others = other_devices();
  return others.empty() ? std::string() : others[0];
}

LoadOptions on(const std::string& device, int32_t layers) {
  LoadOptions load;
  load.device = device;
  load.gpu_layers = layers;
  load.context = 256;
  load.batch_rows = 32;
  load.threads = 1;
  load.exact = true;
  return load;
}

/// One of each family of graphs and of weights, small enough for every number of layers.
std::vector<GoldenModel> some_models() {
  std::vector<GoldenModel> models = golden_models();
  std::erase_if(models, [](const GoldenModel& m) {
    constexpr const char* kNames[] = {"llama-q4_k", "gpt-oss-mxfp4", "deepseek2-lite-f32",
                                      "gemma3-f32", "olmo3-f32",     "smollm3-f32"};
    return std::ranges::none_of(kNames, [&](const char* name) { return m.name == name; });
  });
  return models;
}

std::vector<int32_t> greedy(const GoldenModel& model, const LoadOptions& load) {
  const auto engine = load_watched(model.path, load);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  const auto session = (*engine)->open_session().value();
  std::vector<int32_t> made;
  GenerateOptions options;
  options.max_tokens = 16;
  options.ignore_end = true;
  options.sampling.temperature = 0;
  const auto result =
      session->generate(model.tokens, options, [&](int32_t token, std::string_view) {
        made.push_back(token);
        return true;
      });
  REQUIRE_MESSAGE(result.has_value(), result.error().message());
  return made;
}

TEST_CASE("placement: any number of layers elsewhere gives the logits and the CPU's greedy text") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  for (const GoldenModel& model : some_models()) {
    const std::vector<float> reference = read_f32(model.logits);
    const std::vector<int32_t> text = greedy(model, on("cpu", -1));
    const auto layers = static_cast<int32_t>(plan_model(model.path, on("cpu", -1)).value().layers);
    for (int32_t n = 0; n <= layers + 1; ++n) {
      INFO(model.name << " " << n << " of " << layers + 1);
      const MemoryReport plan = plan_model(model.path, on(device, n)).value();
      CHECK(plan.gpu_layers == n);
      CHECK(plan.refused.empty());
      EvaluateOptions options;
      options.load = on(device, n);
      CHECK(nmse(evaluate(model, options), reference) <= 1e-10);
      CHECK(greedy(model, on(device, n)) == text);
    }
  }
}

TEST_CASE("placement: chunks and single steps give the same bits") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  int rows = 1;
  for (const GoldenModel& model : some_models()) {
    INFO(model.name);
    EvaluateOptions options;
    options.load = on(device, 2);
    const std::vector<float> reference = evaluate(model, options);
    options.load.batch_rows = rows;
    const std::vector<float> logits = evaluate(model, options);
    REQUIRE(logits.size() == reference.size());
    CHECK(std::memcmp(logits.data(), reference.data(), logits.size() * sizeof(float)) == 0);
    rows = rows == 1 ? 3 : 1;
  }
}

TEST_CASE("placement: speculation changes no token, wherever the layers are") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  int32_t n = 1;
  for (const GoldenModel& model : some_models()) {
    INFO(model.name << " " << n);
    LoadOptions load = on(device, n);
    const std::vector<int32_t> plain = greedy(model, load);
    load.drafters = {"ngram"};
    CHECK(greedy(model, load) == plain);
    load.drafters = {"model"};
    load.draft_model = model.path;
    CHECK(greedy(model, load) == plain);
    n = n == 1 ? 99 : 1;
  }
}

TEST_CASE("placement: each device holds what was planned for it") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  for (const GoldenModel& model : some_models()) {
    for (const std::string& names : {device, device + "," + device}) {
      for (const int32_t n : {0, 1, 2, 99}) {
        INFO(model.name << " on " << names << " " << n);
        const MemoryReport plan = plan_model(model.path, on(names, n)).value();
        const auto engine = load_watched(model.path, on(names, n));
        REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
        const MemoryReport used = (*engine)->memory();
        REQUIRE(used.devices.size() == plan.devices.size());
        for (size_t d = 0; d < used.devices.size(); ++d) {
          CHECK(used.devices[d].weights == plan.devices[d].weights);
          CHECK(used.devices[d].kv == plan.devices[d].kv);
          CHECK(used.devices[d].activations == plan.devices[d].activations);
          CHECK(used.devices[d].scratch == plan.devices[d].scratch);
        }
      }
    }
  }
}

TEST_CASE("placement: two devices share the layers, and the text is the CPU's") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  for (const GoldenModel& model : some_models()) {
    INFO(model.name);
    const std::string names = device + "," + device;
    const MemoryReport plan = plan_model(model.path, on(names, 99)).value();
    REQUIRE(plan.devices.size() == 3);
    CHECK(plan.devices[0].computes.empty());
    CHECK(!plan.devices[1].computes.empty());
    CHECK(plan.devices[2].computes.find("output") != std::string::npos);
    CHECK(greedy(model, on(names, 99)) == greedy(model, on("cpu", -1)));
    CHECK(greedy(model, on(names, 2)) == greedy(model, on("cpu", -1)));
  }
}

/// 150 tokens that follow nothing.
std::vector<int32_t> long_text(const GoldenModel& model, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 150; ++i) {
    tokens.push_back(model.tokens[static_cast<size_t>(i * 7 + seed) % model.tokens.size()]);
  }
  return tokens;
}

TEST_CASE("placement: a session is saved and goes on wherever its layers are") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  const TempDir dir;
  for (const GoldenModel& model : some_models()) {
    const std::vector<int32_t> tokens = long_text(model, 1);
    const auto next = [&](Session& session) {
      std::vector<float> last;
      const Status status =
          session.evaluate(std::span(tokens).last(1), [&](int64_t, std::span<const float> logits) {
            last.assign(logits.begin(), logits.end());
            return true;
          });
      REQUIRE_MESSAGE(status.ok(), status.message());
      return last;
    };
    const std::string path = dir.path("session");
    for (const int32_t from : {0, 1, 99}) {
      const auto saving = load_watched(model.path, on(device, from)).value();
      const auto saved = saving->open_session().value();
      REQUIRE(saved->evaluate(tokens, {}).ok());
      REQUIRE(saved->save(path).ok());
      const std::vector<float> expected = next(*saved);
      for (const int32_t to : {0, 1, 2, 99}) {
        INFO(model.name << " from " << from << " to " << to);
        const auto engine = load_watched(model.path, on(device, to)).value();
        const auto session = engine->open_session().value();
        const Status status = session->restore(path);
        REQUIRE_MESSAGE(status.ok(), status.message());
        const std::vector<float> found = next(*session);
        if (from == to) {
          CHECK(found == expected);
        } else {
          CHECK(nmse(found, expected) <= 1e-9);
        }
      }
    }
  }
}

TEST_CASE(
    "placement: recurrent layers are computed elsewhere, and sessions move with their states") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  const TempDir dir;
  const std::string path = dir.path("session");
  for (const GoldenModel& model : golden_models()) {
    if (model.name != "qwen35-f32" && model.name != "falcon-h1-f32") continue;
    INFO(model.name);
    CHECK(plan_model(model.path, on(device, 99)).value().refused.empty());
    for (const int32_t n : {1, 2, 99}) {
      EvaluateOptions options;
      options.load = on(device, n);
      CHECK(nmse(evaluate(model, options), read_f32(model.logits)) <= 1e-10);
    }
    const std::vector<int32_t> tokens = long_text(model, 1);
    const auto last = [&](Session& session) {
      std::vector<float> logits;
      const Status status =
          session.evaluate(std::span(tokens).last(1), [&](int64_t, std::span<const float> x) {
            logits.assign(x.begin(), x.end());
            return true;
          });
      REQUIRE_MESSAGE(status.ok(), status.message());
      return logits;
    };
    for (const auto& [from, to] : {std::pair{0, 99}, {99, 0}, {99, 99}, {99, 2}}) {
      const auto saving = load_watched(model.path, on(device, from)).value();
      const auto saved = saving->open_session().value();
      REQUIRE(saved->evaluate(tokens, {}).ok());
      REQUIRE(saved->save(path).ok());
      const auto engine = load_watched(model.path, on(device, to)).value();
      const auto session = engine->open_session().value();
      const Status status = session->restore(path);
      REQUIRE_MESSAGE(status.ok(), status.message());
      const std::vector<float> found = last(*session);
      const std::vector<float> expected = last(*saved);
      CHECK(nmse(found, expected) <= 1e-9);
      if (from == to) CHECK(found == expected);
    }
    // Refused drafts: the states from before the step are taken again.
    LoadOptions load = on(device, 99);
    const std::vector<int32_t> plain = greedy(model, load);
    load.drafters = {"ngram"};
    CHECK(greedy(model, load) == plain);
  }
}

TEST_CASE("placement: sequences at once leave each other's states alone") {
  for (const std::string& device : other_devices()) {
    const KeptDevices kept;
    for (const GoldenModel& model : golden_models()) {
      if (model.name != "qwen3next-f32") continue;
      INFO(device << " " << model.name);
      LoadOptions load = on(device, 99);
      load.parallel = 3;
      const auto engine = load_watched(model.path, load).value();
      std::vector<std::vector<int32_t>> alone, together(3);
      const auto made = [&](size_t i) {
        const std::vector<int32_t> text = long_text(model, static_cast<int32_t>(i));
        const auto session = engine->open_session().value();
        GenerateOptions options;
        options.max_tokens = 8;
        options.ignore_end = true;
        options.sampling.temperature = 0;
        std::vector<int32_t> tokens;
        const auto status = session->generate(std::span(text).first(20 + 30 * i), options,
                                              [&](int32_t token, std::string_view) {
                                                tokens.push_back(token);
                                                return true;
                                              });
        REQUIRE_MESSAGE(status.has_value(), status.error().message());
        return tokens;
      };
      for (size_t i = 0; i < 3; ++i) alone.push_back(made(i));
      {
        std::vector<std::jthread> callers;
        for (size_t i = 0; i < 3; ++i) callers.emplace_back([&, i] { together[i] = made(i); });
      }
      CHECK(together == alone);
    }
  }
}

TEST_CASE("placement: what sessions share lies on every device") {
  const std::string device = other_device();
  if (device.empty()) return;
  const KeptDevices kept;
  for (const GoldenModel& model : some_models()) {
    INFO(model.name);
    const std::vector<int32_t> tokens = long_text(model, 2);
    const auto all_logits = [&](Session& session) {
      std::vector<float> last;
      REQUIRE(session
                  .evaluate(std::span(tokens).last(3),
                            [&](int64_t, std::span<const float> logits) {
                              last.assign(logits.begin(), logits.end());
                              return true;
                            })
                  .ok());
      return last;
    };
    const auto engine = load_watched(model.path, on(device, 2)).value();
    const auto first = engine->open_session().value();
    REQUIRE(first->evaluate(tokens, {}).ok());
    const auto copy = engine->open_session().value();
    REQUIRE(copy->evaluate(std::span(tokens).first(140), {}).ok());
    REQUIRE(copy->evaluate(std::span(tokens).last(10), {}).ok());
    const std::vector<float> expected = all_logits(*first);
    CHECK(all_logits(*copy) == expected);
    const auto second = engine->open_session().value();
    REQUIRE(second->evaluate(tokens, {}).ok());
    CHECK(all_logits(*second) == expected);
  }
}

}  // namespace
}  // namespace infer::test
