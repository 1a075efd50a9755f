// The C++ API: what sessions promise when they end, fail, are cut, or run at once.
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("another thread ends a call; the session goes on from what it holds") {
  const auto engine = load(2, 4096);
  const auto session = open(*engine);
  std::atomic<int> seen{0};
  std::thread other([&] {
    while (seen < 3) std::this_thread::yield();
    session->cancel();
  });
  const auto result = session->generate(kPrompt, sampled(-1), [&](int32_t, std::string_view) {
    ++seen;
    return true;
  });
  other.join();
  REQUIRE(result.has_value());
  CHECK(result->reason == FinishReason::cancelled);
  CHECK(result->generated_tokens >= 3);
  CHECK(session->length() == static_cast<int64_t>(kPrompt.size()) + result->generated_tokens);
  CHECK(tokens_of(*session, {}, sampled(5)).size() == 5);
}

TEST_CASE("a cancel without a running call has no effect") {
  const auto engine = load();
  const auto session = open(*engine);
  session->cancel();
  CHECK(tokens_of(*session, kPrompt, sampled(4)).size() == 4);
}

TEST_CASE("a callback that returns false ends the call and is not called again") {
  const auto engine = load();
  const auto session = open(*engine);
  int calls = 0;
  const auto result = session->generate(kPrompt, sampled(50),
                                        [&](int32_t, std::string_view) { return ++calls < 3; });
  REQUIRE(result.has_value());
  CHECK(result->reason == FinishReason::cancelled);
  CHECK(calls == 3);
  int rows = 0;
  CHECK(session->evaluate(kPrompt, [&](int64_t, auto) { return ++rows < 2; }).ok());
  CHECK(rows == 2);
}

TEST_CASE("parts of a generation are the whole: no token is lost between calls") {
  const auto engine = load();
  const std::vector<int32_t> whole = tokens_of(*open(*engine), kPrompt, sampled(20));
  REQUIRE(whole.size() == 20);
  const auto session = open(*engine);
  std::vector<int32_t> parts = tokens_of(*session, kPrompt, sampled(7));
  CHECK(session->length() == static_cast<int64_t>(kPrompt.size() + 7));
  CHECK(session->statistics().generated_tokens == 7);
  CHECK(session->statistics().reason == FinishReason::length);
  for (const int32_t token : tokens_of(*session, {}, sampled(13))) parts.push_back(token);
  CHECK(parts == whole);
}

TEST_CASE("logits after a generation are those of the same tokens given at once") {
  const auto engine = load();
  const auto session = open(*engine);
  std::vector<int32_t> all = kPrompt;
  for (const int32_t token : tokens_of(*session, kPrompt, sampled(6))) all.push_back(token);
  std::vector<float> after;
  const std::vector<int32_t> more{5, 77};
  int64_t first = -1;
  CHECK(session
            ->evaluate(more,
                       [&](int64_t position, std::span<const float> logits) {
                         if (first < 0) first = position;
                         after.insert(after.end(), logits.begin(), logits.end());
                         return true;
                       })
            .ok());
  CHECK(first == static_cast<int64_t>(all.size()));
  CHECK(after.size() == 2 * static_cast<size_t>(engine->vocabulary_size()));
  all.insert(all.end(), more.begin(), more.end());
  std::vector<float> last;
  CHECK(open(*engine)
            ->evaluate(all,
                       [&](int64_t, std::span<const float> logits) {
                         last.assign(logits.begin(), logits.end());
                         return true;
                       })
            .ok());
  CHECK(std::equal(last.begin(), last.end(), after.begin() + engine->vocabulary_size()));
}

TEST_CASE("a full context ends generation; too long a prompt is refused and changes nothing") {
  const auto engine = load(2, 64);
  const auto session = open(*engine);
  CHECK(session->room() == engine->memory().context);
  const auto result = session->generate(kPrompt, sampled(-1), {});
  REQUIRE(result.has_value());
  CHECK(result->reason == FinishReason::context);
  CHECK(result->generated_tokens > 0);
  CHECK(session->room() == 0);
  REQUIRE(session->truncate(2).ok());

  const std::vector<int32_t> too_long(static_cast<size_t>(engine->memory().context) + 1, 5);
  const auto refused = session->generate(too_long, sampled(1), {});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::does_not_fit);
  CHECK(refused.error().message().find("context") != std::string::npos);
  CHECK(session->length() == 2);
  CHECK(tokens_of(*session, kPrompt, sampled(3)).size() == 3);
}

TEST_CASE("bad requests are typed errors and leave the session as it was") {
  const auto engine = load();
  const auto session = open(*engine);
  const auto code = [&](const std::vector<int32_t>& prompt, const GenerateOptions& options) {
    const auto result = session->generate(prompt, options, {});
    return result ? StatusCode::ok : result.error().code();
  };
  CHECK(code({}, sampled(1)) == StatusCode::invalid_argument);
  const std::vector<int32_t> before = tokens_of(*session, kPrompt, sampled(3));
  const int64_t length = session->length();
  CHECK(code({-1}, sampled(1)) == StatusCode::invalid_argument);
  CHECK(code({engine->vocabulary_size()}, sampled(1)) == StatusCode::invalid_argument);
  GenerateOptions cold = sampled(1);
  cold.sampling.temperature = -1.0f;
  CHECK(code({5}, cold) == StatusCode::invalid_argument);
  const std::vector<int32_t> bad{1, -7};
  CHECK(session->evaluate(bad, {}).code() == StatusCode::invalid_argument);
  CHECK(session->truncate(length + 1).code() == StatusCode::invalid_argument);
  CHECK(session->truncate(-1).code() == StatusCode::invalid_argument);
  CHECK(session->length() == length);
  REQUIRE(session->truncate(0).ok());
  CHECK(tokens_of(*session, kPrompt, sampled(3)) == before);
}

TEST_CASE("a callback that throws ends its own call with a message") {
  const auto engine = load();
  const auto session = open(*engine);
  const auto thrown = session->generate(kPrompt, sampled(9), [](int32_t, std::string_view) -> bool {
    throw std::runtime_error("no paper");
  });
  REQUIRE(!thrown.has_value());
  CHECK(thrown.error().code() == StatusCode::invalid_argument);
  CHECK(thrown.error().message().find("no paper") != std::string::npos);
  CHECK(session->length() == 0);
  CHECK(session->evaluate(kPrompt, [](int64_t, auto) -> bool { throw 1; }).code() ==
        StatusCode::invalid_argument);
  CHECK(tokens_of(*session, kPrompt, sampled(3)).size() == 3);
}

TEST_CASE("no tokens to generate: the prompt is computed and held") {
  const auto engine = load();
  const auto session = open(*engine);
  REQUIRE(session->generate(kPrompt, sampled(0), {}).has_value());
  CHECK(session->length() == static_cast<int64_t>(kPrompt.size()));
  CHECK(tokens_of(*session, {}, sampled(8)) == tokens_of(*open(*engine), kPrompt, sampled(8)));
}

TEST_CASE("cut back and generated again: the same tokens") {
  const auto engine = load();
  const auto session = open(*engine);
  const std::vector<int32_t> first = tokens_of(*session, kPrompt, sampled(70));
  REQUIRE(first.size() == 70);
  REQUIRE(session->truncate(static_cast<int64_t>(kPrompt.size())).ok());
  CHECK(tokens_of(*session, {}, sampled(70)) == first);
  REQUIRE(session->truncate(2).ok());
  CHECK(tokens_of(*session, {kPrompt.begin() + 2, kPrompt.end()}, sampled(70)) == first);
}

TEST_CASE("two sessions at once, and other thread counts, give the tokens of one alone") {
  const auto engine = load();
  const std::vector<int32_t> other_prompt{1, 5, 9, 33, 70};
  const auto alone = tokens_of(*open(*engine), kPrompt, sampled(40));
  const auto other_alone = tokens_of(*open(*engine), other_prompt, sampled(40, 8));
  REQUIRE(alone.size() == 40);
  CHECK(alone != other_alone);
  std::vector<int32_t> together;
  std::vector<int32_t> other_together;
  const auto a = open(*engine);
  const auto b = open(*engine);
  std::thread first([&] { together = tokens_of(*a, kPrompt, sampled(40)); });
  std::thread second([&] { other_together = tokens_of(*b, other_prompt, sampled(40, 8)); });
  first.join();
  second.join();
  CHECK(together == alone);
  CHECK(other_together == other_alone);
  for (const int32_t threads : {2, 3}) {
    CHECK(tokens_of(*open(*load(threads)), kPrompt, sampled(40)) == alone);
  }
  CHECK(tokens_of(*open(*engine), kPrompt, sampled(40, 9)) != alone);
}

TEST_CASE("loading: progress rises to 1, may cancel, may throw") {
  LoadOptions options;
  double last = -1;
  options.progress = [&](double done) {
    CHECK(done >= last);
    last = done;
    return true;
  };
  REQUIRE(Engine::load(kModel, options).has_value());
  CHECK(last == 1.0);
  options.progress = [](double done) { return done < 0.3; };
  const auto cancelled = Engine::load(kModel, options);
  REQUIRE(!cancelled.has_value());
  CHECK(cancelled.error().code() == StatusCode::cancelled);
  options.progress = [](double) -> bool { throw std::runtime_error("no"); };
  const auto thrown = Engine::load(kModel, options);
  REQUIRE(!thrown.has_value());
  CHECK(thrown.error().code() == StatusCode::invalid_argument);
  CHECK(Engine::load("/nonexistent.gguf", {}).error().code() == StatusCode::not_found);
}

TEST_CASE("the vocabulary of an engine and of its file are the same") {
  const std::string path = data_path("vocab/llama-spm.gguf");
  const auto vocabulary = Vocabulary::load(path);
  REQUIRE(vocabulary.has_value());
  const SpecialTokenIds special = (*vocabulary)->special();
  CHECK(special.bos == 1);
  CHECK(special.eos == 2);
  CHECK(special.adds_bos);
  CHECK((*vocabulary)->is_end_of_generation(2));
  CHECK(!(*vocabulary)->is_end_of_generation(1));
  CHECK((*vocabulary)->piece(-1).empty());
  const auto ids = (*vocabulary)->tokenize("Hello", {});
  REQUIRE(ids.has_value());
  CHECK(ids->front() == 1);
  CHECK((*vocabulary)->piece(ids->back()) == " Hello");
  const auto engine = load(2);
  CHECK(engine->vocabulary().size() == Vocabulary::load(kModel).value()->size());
  CHECK(engine->devices().back().name == "cpu");
  CHECK(engine->devices().back().threads == 2);
}

TEST_CASE("a context of any length shifts on request") {
  for (const int64_t context : {1, 2, 3, 4}) {
    for (const int32_t keep : {0, 1, 2, 9}) {
      CAPTURE(context);
      CAPTURE(keep);
      const auto engine = load(1, context);
      GenerateOptions options = sampled(20);
      options.overflow = ContextOverflow::shift;
      options.keep = keep;
      for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{1}, kPrompt}) {
        const auto session = open(*engine);
        const auto result = session->generate(prompt, options, {});
        REQUIRE_MESSAGE(result.has_value(), result.error().message());
        CHECK(result->generated_tokens == 20);
        CHECK(result->reason == FinishReason::length);
        CHECK(session->length() <= context + 1);
      }
    }
  }
}

/// Generates with every value of an option at the ends of its type and near 0.
template <typename T>
void try_values(Engine& engine, const char* name, std::optional<T> SamplingOptions::*field) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{Limits::lowest(), Limits::max(), -2, -1, 0, 1, 2, 1000000};
  if constexpr (!Limits::is_integer) {
    values.insert(values.end(), {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                                 -1e6f, -0.0f, 1e-38f, 1.4e-45f, -1e-38f});
  }
  CAPTURE(name);
  for (const T value : values) {
    CAPTURE(value);
    for (const int32_t mirostat : {0, 1, 2}) {
      GenerateOptions options = sampled(6);
      options.sampling.mirostat = mirostat;
      options.sampling.dry_multiplier = 0.5f;
      options.sampling.*field = value;
      const auto session = open(engine);
      const auto result = session->generate(kPrompt, options, {});
      if (result) {
        CHECK(std::isfinite(static_cast<double>(value)));
        CHECK(result->generated_tokens == 6);
        continue;
      }
      CHECK(result.error().code() == StatusCode::invalid_argument);
      CHECK(result.error().message().starts_with(std::string(name) + ": expected "));
    }
  }
}

TEST_CASE("sampling options that make no sense are refused by name, all others give a token") {
  const auto engine = load(1);
#define INFER_SAMPLING(type, name, ...) try_values(*engine, #name, &SamplingOptions::name);
#include "infer/samplers.def"
}

TEST_CASE("loading options out of range are refused by name") {
  const auto refused = [](const char* name, const LoadOptions& options) {
    CAPTURE(name);
    const auto plan = plan_model(kModel, options);
    REQUIRE(!plan.has_value());
    CHECK(plan.error().code() == StatusCode::invalid_argument);
    CHECK(plan.error().message().starts_with(std::string(name) + ": expected "));
  };
  LoadOptions options;
#define INFER_LOAD_NUMBER(type, name, preset, low, high, ...) \
  options.name = static_cast<type>((low)-1);                  \
  refused(#name, options);                                    \
  options.name = preset;
#include "infer/load_options.def"
  options.batch_rows = 65537;
  refused("batch_rows", options);
}

TEST_CASE("biases: what forbids all tokens, or is no number, is refused with what is wrong") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto engine = load(1);
  const auto refused = [&](const std::vector<std::pair<int32_t, float>>& biases,
                           const std::string& grammar = "") {
    GenerateOptions options = sampled(5);
    options.grammar = grammar;
    std::string messages;
    for (const float temperature : {0.0f, 1.0f}) {
      options.sampling.temperature = temperature;
      options.sampling.logit_bias = biases;
      const auto session = open(*engine);
      const auto result = session->generate(kPrompt, options, {});
      REQUIRE(!result.has_value());
      CHECK(result.error().code() == StatusCode::invalid_argument);
      CHECK(result.error().message().find("logit_bias") != std::string::npos);
      CHECK(session->length() == 0);
    }
  };
  refused({{5, kNan}});
  refused({{5, -kNan}, {6, 1.0f}});
  refused({{5, 2e30f}});
  refused({{5, -3e38f}});
  refused({{5, kInf}, {6, 1.0f}, {5, -kInf}});
  std::vector<std::pair<int32_t, float>> all;
  for (int32_t token = 0; token < engine->vocabulary_size(); ++token)
    all.emplace_back(token, -kInf);
  refused(all);
  refused(all, "root ::= [a-z]+");

  // Forced, whatever the temperature; a grammar comes before it.
  for (const float temperature : {0.0f, 1.0f}) {
    GenerateOptions options = sampled(5);
    options.sampling.temperature = temperature;
    options.sampling.logit_bias = {{77, kInf}};
    CHECK(tokens_of(*open(*engine), kPrompt, options) == std::vector<int32_t>(5, 77));
    options.grammar = "root ::= [a-z]+";
    GenerateOptions without = options;
    without.sampling.logit_bias.clear();
    const int32_t digit = engine->tokenize("7", {false, true}).value().back();
    options.sampling.logit_bias = {{digit, kInf}};
    CHECK(tokens_of(*open(*engine), kPrompt, options) ==
          tokens_of(*open(*engine), kPrompt, without));
  }
}
