// LoRA adapters as sessions see them: each has factors of its own, which change its tokens alone.
#include <limits>

#include "infer/infer.h"
#include "tests/adapter_file.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Two adapters of a model.
struct Adapters {
  TempDir dir;
  std::vector<std::string> paths{dir.path("first.gguf"), dir.path("second.gguf")};

  explicit Adapters(const std::string& model) {
    write_adapter(paths[0], model, {.seed = 1});
    write_adapter(paths[1], model, {.rank = 7, .alpha = 0, .seed = 100});
  }
  LoadOptions options(std::vector<std::string> adapters, int64_t context = 1024) const {
    LoadOptions options;
    options.threads = 2;
    options.context = context;
    options.batch_rows = 64;
    options.adapters = std::move(adapters);
    return options;
  }
};

std::unique_ptr<Session> open_with(Engine& engine, std::vector<float> factors) {
  Result<std::unique_ptr<Session>> session = engine.open_session({.adapters = std::move(factors)});
  REQUIRE_MESSAGE(session.has_value(), session.error().message());
  return *std::move(session);
}

std::vector<float> logits_of(Session& session, const std::vector<int32_t>& tokens) {
  std::vector<float> all;
  REQUIRE(session
              .evaluate(tokens,
                        [&](int64_t, std::span<const float> row) {
                          all.insert(all.end(), row.begin(), row.end());
                          return true;
                        })
              .ok());
  return all;
}

}  // namespace

TEST_CASE("sessions have the adapters that they ask for, alone and together") {
  for (const std::string& path : {kModel, kWindowModel, kRecurrentModel}) {
    CAPTURE(path);
    const Adapters adapters(path);
    const auto plain = load(adapters.options({}), path);
    const auto engine = load(adapters.options(adapters.paths), path);
    const std::vector<int32_t> prompt = text(150, 1);
    const std::vector<std::vector<float>> factors{{0, 0}, {1, 1}, {1, 0}, {0, 1}, {-0.5f, 2}};
    std::vector<std::vector<float>> alone;
    for (const auto& each : factors) alone.push_back(logits_of(*open_with(*engine, each), prompt));
    CHECK(alone[0] == logits_of(*open(*plain), prompt));
    CHECK(alone[1] == logits_of(*open(*engine), prompt));
    for (size_t i = 0; i < alone.size(); ++i) {
      for (size_t j = 0; j < i; ++j) CHECK(alone[i] != alone[j]);
    }
    // What is loaded alone is what the other one is left out of.
    const auto first = load(adapters.options({adapters.paths[0]}), path);
    CHECK(alone[2] == logits_of(*open(*first), prompt));
    const auto scaled =
        load(adapters.options({adapters.paths[0] + ":-0.5", adapters.paths[1] + ":2"}), path);
    CHECK(alone[4] == logits_of(*open(*scaled), prompt));

    // In the same steps, over a cache that has them all: one prompt, five different texts.
    std::vector<std::vector<int32_t>> expected;
    for (const auto& each : factors) {
      expected.push_back(tokens_of(*open_with(*engine, each), prompt, sampled(20)));
    }
    for (int round = 0; round < 2; ++round) {
      std::vector<std::unique_ptr<Session>> sessions;
      for (const auto& each : factors) sessions.push_back(open_with(*engine, each));
      for (const auto& session : sessions) REQUIRE(session->start(prompt, sampled(20)).ok());
      for (size_t i = 0; i < sessions.size(); ++i) {
        CAPTURE(i);
        CHECK(started_tokens_of(*sessions[i]) == expected[i]);
        // States take more pages than this cache has for all.
        if (path != kRecurrentModel) CHECK(sessions[i]->statistics().reused_tokens >= 128);
      }
    }
  }
}

TEST_CASE("the cache of a text is that of its adapters") {
  const Adapters adapters(kModel);
  const auto engine = load(adapters.options(adapters.paths));
  const std::vector<int32_t> prompt = text(250, 3);
  const auto reused = [&](std::vector<float> factors) {
    const auto session = open_with(*engine, std::move(factors));
    REQUIRE(session->generate(prompt, sampled(1), {}).has_value());
    return session->statistics().reused_tokens;
  };
  CHECK(reused({1, 0}) == 0);
  CHECK(reused({1, -0.0f}) == 192);
  CHECK(reused({0.5f, 0}) == 0);
  CHECK(reused({0, 1}) == 0);
  CHECK(reused({0, 0}) == 0);
  CHECK(reused({-0.0f, 0}) == 192);
  CHECK(reused({0.5f, 0}) == 192);
  CHECK(reused({}) == 0);  // as loaded
  CHECK(reused({1, 1}) == 192);
}

TEST_CASE("forked and saved sessions keep their adapters") {
  const Adapters adapters(kModel);
  const auto engine = load(adapters.options(adapters.paths));
  const auto session = open_with(*engine, {1, 0});
  REQUIRE(session->generate(text(100, 1), sampled(5), {}).has_value());
  const std::string path = adapters.dir.path("saved");
  REQUIRE(session->save(path).ok());
  const auto fork = session->fork().value();
  const std::vector<int32_t> more = text(10, 9);
  const std::vector<int32_t> expected = tokens_of(*session, more, sampled(20));
  CHECK(tokens_of(*fork, more, sampled(20)) == expected);

  const auto same = open_with(*engine, {1, 0});
  REQUIRE(same->restore(path).ok());
  CHECK(same->statistics().reused_tokens > 64);
  CHECK(tokens_of(*same, more, sampled(20)) == expected);
  for (const auto& factors : {std::vector<float>{0, 0}, {0, 1}, {0.9f, 0}}) {
    const Status other = open_with(*engine, factors)->restore(path);
    CHECK(other.code() == StatusCode::invalid_argument);
    CHECK(other.message().find("other adapters") != std::string::npos);
  }
  // Another engine has the adapter alone, and at another place.
  const auto alone = load(adapters.options({adapters.paths[0]}));
  const auto there = open(*alone);
  REQUIRE(there->restore(path).ok());
  CHECK(tokens_of(*there, more, sampled(20)) == expected);
  // What is saved without adapters is as from a model that has none.
  const auto without = open_with(*engine, {0, 0});
  REQUIRE(without->generate(text(100, 1), sampled(5), {}).has_value());
  REQUIRE(without->save(path).ok());
  const auto engine_without = load(2, 1024);
  CHECK(open(*engine_without)->restore(path).ok());
}

TEST_CASE("drafts change no token of a session with adapters") {
  const Adapters adapters(kRecurrentModel);
  LoadOptions options = adapters.options({adapters.paths[0]});
  const auto plain = load(options, kRecurrentModel);
  options.drafters = {"mtp", "suffix"};
  const auto drafting = load(options, kRecurrentModel);
  for (const float factor : {1.0f, 0.0f}) {
    GenerateOptions generate = sampled(60);
    const auto expected = tokens_of(*open_with(*plain, {factor}), kPrompt, generate);
    for (const int32_t drafted : {-1, 3}) {
      generate.draft_tokens = drafted;
      CHECK(tokens_of(*open_with(*drafting, {factor}), kPrompt, generate) == expected);
    }
  }
}

TEST_CASE("adapters are part of the plan, which is what is allocated") {
  const Adapters adapters(kModel);
  const MemoryReport without = plan_model(kModel, adapters.options({})).value();
  const MemoryReport with = plan_model(kModel, adapters.options(adapters.paths)).value();
  CHECK(with.weights > without.weights);
  const auto engine = load(adapters.options(adapters.paths));
  CHECK(engine->memory().weights == with.weights);
  // Two kinds of steps may be compiled.
  CHECK(with.process > without.process);
}

TEST_CASE("what is wrong with adapters is said") {
  const Adapters adapters(kModel);
  const auto failure = [&](const std::string& adapter, const std::string& model = kModel) {
    const auto engine = Engine::load(model, adapters.options({adapter}));
    return engine ? Status() : engine.error();
  };
  const auto fails = [&](const Status& status, StatusCode code, const std::string& named) {
    CAPTURE(status.message());
    CHECK(status.code() == code);
    CHECK(status.message().find(named) != std::string::npos);
  };
  CHECK(failure(adapters.paths[0] + ":1e3").ok());
  fails(failure(adapters.dir.path("none.gguf")), StatusCode::not_found, "none.gguf");
  fails(failure(adapters.dir.path("none.gguf:2")), StatusCode::not_found, "none.gguf");
  fails(failure(adapters.paths[0] + ":inf"), StatusCode::invalid_argument, "finite scale");
  fails(failure(adapters.paths[0] + ":1e99"), StatusCode::invalid_argument, "finite scale");
  fails(failure(adapters.paths[0] + ":two"), StatusCode::not_found, ":two");
  fails(failure(kModel), StatusCode::bad_file, "general.type: expected adapter");
  fails(failure(adapters.paths[0], kWindowModel), StatusCode::bad_file,
        "general.architecture: expected gpt-oss, that of the model, found llama");
  fails(failure(adapters.paths[0], data_path("golden/llama-f32.gguf")), StatusCode::bad_file,
        "lora_");
  const std::string latent = data_path("golden/deepseek2-v3-f32.gguf");
  const std::string path = adapters.dir.path("latent.gguf");
  write_adapter(path, latent, {.changes = [](const std::string& tensor) {
                  return tensor.ends_with("attn_k_b.weight");
                }});
  fails(failure(path, latent), StatusCode::unsupported, "attn_k_b.weight.lora_a");

  const auto engine = load(adapters.options(adapters.paths));
  const auto session = [&](std::vector<float> factors) {
    return engine->open_session({.adapters = std::move(factors)}).error();
  };
  fails(session({1}), StatusCode::invalid_argument, "expected 2 factors, found 1");
  fails(session({1, 1, 1}), StatusCode::invalid_argument, "expected 2 factors, found 3");
  fails(session({1, std::numeric_limits<float>::quiet_NaN()}), StatusCode::invalid_argument,
        "finite");
  const std::vector<AdapterDescription> all = engine->adapters();
  REQUIRE(all.size() == 2);
  CHECK(all[1].path == adapters.paths[1]);
  CHECK(all[1].scale == 1);
}

TEST_CASE("C: adapters") {
  const Adapters adapters(kModel);
  const std::string given = adapters.paths[0] + ":0.5;" + adapters.paths[1];
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  options.adapters = given.c_str();
  options.context = 256;
  infer_engine* engine = nullptr;
  REQUIRE(infer_engine_load(kModel.c_str(), &options, &engine) == INFER_OK);
  REQUIRE(infer_engine_adapter_count(engine) == 2);
  infer_adapter adapter{};
  REQUIRE(infer_engine_adapter(engine, 0, &adapter, sizeof(adapter)) == INFER_OK);
  CHECK(adapter.path == adapters.paths[0]);
  CHECK(adapter.scale == 0.5f);
  CHECK(infer_engine_adapter(engine, 2, &adapter, sizeof(adapter)) == INFER_INVALID_ARGUMENT);

  const auto logits = [&](const float* factors, size_t count) {
    infer_session_options with;
    infer_session_options_init(&with, sizeof(with));
    with.adapters = factors;
    with.adapter_count = count;
    infer_session* session = nullptr;
    REQUIRE(infer_session_open_with(engine, &with, &session) == INFER_OK);
    std::vector<float> last;
    const auto keep = [](void* user, int64_t, const float* row, size_t n) {
      static_cast<std::vector<float>*>(user)->assign(row, row + n);
      return 1;
    };
    REQUIRE(infer_evaluate(session, kPrompt.data(), kPrompt.size(), keep, &last) == INFER_OK);
    infer_session_free(session);
    return last;
  };
  const float loaded[] = {0.5f, 1};
  const float none[] = {0, 0};
  CHECK(logits(nullptr, 0) == logits(loaded, 2));
  CHECK(logits(nullptr, 0) != logits(none, 2));
  infer_session_options wrong;
  infer_session_options_init(&wrong, sizeof(wrong));
  wrong.adapter_count = 2;
  infer_session* session = nullptr;
  CHECK(infer_session_open_with(engine, &wrong, &session) == INFER_INVALID_ARGUMENT);
  infer_engine_free(engine);
}
