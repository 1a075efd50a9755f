// Log-probabilities of a prompt's tokens, against the logits of evaluate().
#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <numeric>
#include <thread>

#include "engine/session/generate_run.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

using Choices = std::vector<std::pair<int32_t, float>>;
constexpr int32_t kTop = 4;
constexpr double kForever = std::numeric_limits<double>::infinity();

/// A token of the prompt, and the log-probabilities of all tokens in its place.
struct Place {
  int32_t token = -1;
  std::vector<double> expected;  ///< [vocabulary]
};

std::unique_ptr<Engine> load_with(int64_t context, int32_t outputs, int32_t rows = 512,
                                  const std::string& path = kModel) {
  LoadOptions options;
  options.threads = 1;
  options.context = context;
  options.output_rows = outputs;
  options.batch_rows = rows;
  return load(options, path);
}

/// Of all tokens from `from` on, by the definition of softmax.
std::vector<Place> places_of(Engine& engine, const std::vector<int32_t>& tokens, size_t from = 1) {
  std::vector<Place> places;
  const Status status =
      open(engine)->evaluate(tokens, [&](int64_t position, std::span<const float> logits) {
        const auto next = static_cast<size_t>(position) + 1;
        if (next < from || next >= tokens.size()) return true;
        const double most = *std::ranges::max_element(logits);
        double sum = 0;
        for (const float x : logits) sum += std::exp(x - most);
        Place place{tokens[next], {}};
        for (const float x : logits) place.expected.push_back(x - most - std::log(sum));
        places.push_back(std::move(place));
        return true;
      });
  REQUIRE_MESSAGE(status.ok(), status.message());
  return places;
}

void check(const std::vector<Choices>& told, const std::vector<Place>& places) {
  REQUIRE(told.size() == places.size());
  for (size_t i = 0; i < told.size(); ++i) {
    CAPTURE(i);
    const auto& expected = places[i].expected;
    std::vector<double> sorted = expected;
    std::ranges::sort(sorted, std::greater<>());
    REQUIRE(told[i].size() == 1 + kTop);
    CHECK(told[i][0].first == places[i].token);
    for (const auto& [token, value] : told[i]) {
      CHECK(value == doctest::Approx(expected[static_cast<size_t>(token)]).epsilon(1e-5));
    }
    for (size_t j = 1; j < told[i].size(); ++j) {
      CHECK(told[i][j].second == doctest::Approx(sorted[j - 1]).epsilon(1e-5));
    }
  }
}

struct Told {
  std::vector<Choices> prompt;
  std::vector<int32_t> tokens;
  Result<GenerateResult> result = GenerateResult();
};

/// With the prompt's log-probabilities. May run on any thread.
Told told(Session& session, const std::vector<int32_t>& prompt, GenerateOptions options) {
  Told told;
  options.prompt_logprobs = kTop;
  options.on_prompt_logprobs = [&](auto choices) {
    told.prompt.emplace_back(choices.begin(), choices.end());
    return true;
  };
  told.result = session.generate(prompt, options, [&](int32_t token, auto) {
    if (token >= 0) told.tokens.push_back(token);
    return true;
  });
  return told;
}

}  // namespace

TEST_CASE("log-probabilities of a prompt are those of its logits, in whatever pieces") {
  for (const std::string& model : {kModel, kRecurrentModel}) {
    CAPTURE(model);
    for (const auto& [outputs, rows] : {std::pair{1, 512}, {16, 512}, {512, 512}, {16, 3}}) {
      CAPTURE(outputs);
      CAPTURE(rows);
      const auto engine = load_with(512, outputs, rows, model);
      for (const int64_t length : {1, 2, 17, 64, 65, 300}) {
        CAPTURE(length);
        const std::vector<int32_t> prompt = text(length, 3);
        // The prompt is in the cache from here on.
        const std::vector<int32_t> expected = tokens_of(*open(*engine), prompt, sampled(6));
        const Told found = told(*open(*engine), prompt, sampled(6));
        REQUIRE_MESSAGE(found.result.has_value(), found.result.error().message());
        check(found.prompt, places_of(*engine, prompt));
        CHECK(found.tokens == expected);
        CHECK(found.result->reused_tokens == 0);
        CHECK(found.result->prompt_tokens == length);
        CHECK(found.result->generated_tokens == 6);
      }
    }
  }
}

TEST_CASE("without a token to generate, the prompt alone is told; without a prompt nothing is") {
  const auto engine = load();
  const auto session = open(*engine);
  const Told found = told(*session, text(20, 1), sampled(0));
  check(found.prompt, places_of(*engine, text(20, 1)));
  CHECK(found.tokens.empty());
  CHECK(session->length() == 20);
  const Told after = told(*session, {}, sampled(3));
  CHECK(after.prompt.empty());
  CHECK(after.tokens == tokens_of(*open(*engine), text(20, 1), sampled(3)));
}

TEST_CASE("the tokens that a session holds predict the first token of the prompt") {
  const auto engine = load();
  const std::vector<int32_t> more = text(30, 5);
  const auto check_after = [&](Session& session, std::vector<int32_t> held) {
    CAPTURE(held.size());
    REQUIRE(session.length() == static_cast<int64_t>(held.size()));
    const Told found = told(session, more, sampled(4));
    REQUIRE_MESSAGE(found.result.has_value(), found.result.error().message());
    std::vector<int32_t> all = held;
    all.insert(all.end(), more.begin(), more.end());
    check(found.prompt, places_of(*engine, all, held.size()));
    CHECK(found.tokens == tokens_of(*open(*engine), all, sampled(4)));
  };
  std::vector<int32_t> held = text(70, 2);
  const auto evaluated = open(*engine);
  REQUIRE(evaluated->evaluate(held, {}).ok());
  check_after(*evaluated, held);

  const auto cut = open(*engine);
  REQUIRE(cut->evaluate(text(100, 2), {}).ok());
  REQUIRE(cut->truncate(70).ok());
  check_after(*cut, held);

  const auto generated = open(*engine);
  for (const int32_t token : tokens_of(*generated, held, sampled(5))) held.push_back(token);
  check_after(*generated, held);
}

TEST_CASE("prompts that are told and others are computed side by side, also if pages run out") {
  for (const int64_t context : {4096, 320}) {
    CAPTURE(context);
    const auto engine = load_with(context, 16, 64);
    std::vector<std::future<Told>> runs;
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<std::unique_ptr<Session>> others;
    std::vector<std::future<std::vector<int32_t>>> plain;
    EngineAccess::impl(*engine).thread->hold(true);
    for (int32_t i = 0; i < 3; ++i) {
      sessions.push_back(open(*engine));
      others.push_back(open(*engine));
    }
    for (int32_t i = 0; i < 3; ++i) {
      runs.push_back(std::async(std::launch::async, [&, i] {
        return told(*sessions[static_cast<size_t>(i)], text(150, i), sampled(8));
      }));
      plain.push_back(std::async(std::launch::async, [&, i] {
        return tokens_of(*others[static_cast<size_t>(i)], text(100, 10 + i), sampled(8));
      }));
    }
    wait_for_sequences(*engine, 6);
    EngineAccess::impl(*engine).thread->hold(false);
    for (int32_t i = 0; i < 3; ++i) {
      const Told found = runs[static_cast<size_t>(i)].get();
      REQUIRE_MESSAGE(found.result.has_value(), found.result.error().message());
      check(found.prompt, places_of(*engine, text(150, i)));
      CHECK(found.tokens == tokens_of(*open(*engine), text(150, i), sampled(8)));
      CHECK(plain[static_cast<size_t>(i)].get() ==
            tokens_of(*open(*engine), text(100, 10 + i), sampled(8)));
    }
    const int64_t again = engine->statistics().recomputed_tokens;
    CHECK((context == 320) == (again > 0));
  }
}

TEST_CASE("events tell the prompt first; nobody who reads them delays others") {
  const auto engine = load(1, 2048);
  const std::vector<int32_t> prompt = text(200, 4);
  const auto session = open(*engine);
  GenerateOptions options = sampled(5);
  options.prompt_logprobs = kTop;
  REQUIRE(session->start(prompt, options).ok());
  for (int i = 0; i < 3; ++i) {
    CHECK(tokens_of(*open(*engine), kPrompt, sampled(100)).size() == 100);
  }
  // What was computed for it waits, and no more.
  const int64_t computed = engine->statistics().prompt_tokens;
  CHECK(computed < 150);
  std::vector<Choices> found;
  std::vector<int32_t> tokens;
  for (;;) {
    const GenerateEvent event = session->next(kForever).value().value();
    if (event.finished) break;
    if (event.of_prompt) {
      CHECK(tokens.empty());
      CHECK(event.text.empty());
      CHECK(event.token == prompt[found.size() + 1]);
      CHECK(session->length() == 200);
      found.push_back(event.log_probabilities);
    } else if (event.token >= 0) {
      CHECK(event.log_probabilities.empty());
      tokens.push_back(event.token);
    }
  }
  check(found, places_of(*engine, prompt));
  CHECK(tokens == tokens_of(*open(*engine), prompt, sampled(5)));
}

TEST_CASE("a slow reader of a prompt's rows does not cost a step for each row") {
  constexpr int32_t kOutputs = 16;
  const auto engine = load_with(512, kOutputs);
  const auto slow = [] {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    return true;
  };
  const std::vector<int32_t> prompt = text(257, 6);
  int64_t before = engine->statistics().steps;
  REQUIRE(open(*engine)->evaluate(prompt, [&](int64_t, auto) { return slow(); }).ok());
  CHECK(engine->statistics().steps - before <= 2 + 257 / (kOutputs / 2));

  before = engine->statistics().steps;
  GenerateOptions options = sampled(0);
  options.prompt_logprobs = kTop;
  options.on_prompt_logprobs = [&](auto) { return slow(); };
  REQUIRE(open(*engine)->generate(prompt, options, [](int32_t, auto) { return true; }).has_value());
  CHECK(engine->statistics().steps - before <= 2 + 257 / (kOutputs / 2));
}

TEST_CASE("a callback may end the telling of a prompt, or fail") {
  const auto engine = load();
  const std::vector<int32_t> prompt = text(120, 6);
  for (const int stop : {1, 2, 40, 119}) {
    CAPTURE(stop);
    const auto session = open(*engine);
    GenerateOptions options = sampled(50);
    options.prompt_logprobs = 0;
    int count = 0;
    options.on_prompt_logprobs = [&](auto choices) {
      CHECK(choices.size() == 1);
      return ++count < stop;
    };
    int generated = 0;
    const auto result = session->generate(prompt, options, [&](int32_t, auto) {
      ++generated;
      return true;
    });
    REQUIRE(result.has_value());
    CHECK(result->reason == FinishReason::cancelled);
    CHECK(count == stop);
    CHECK(generated == 0);
    CHECK(result->generated_tokens == 0);
    CHECK(session->length() == stop + 1);
    const std::vector<int32_t> kept(prompt.begin(), prompt.begin() + stop + 1);
    CHECK(tokens_of(*session, {}, sampled(5)) == tokens_of(*open(*engine), kept, sampled(5)));

    const int64_t held = session->length();
    options.on_prompt_logprobs = [](auto) -> bool { throw std::runtime_error("no more"); };
    const auto failed = session->generate(prompt, options, {});
    REQUIRE(!failed.has_value());
    CHECK(failed.error().message() == "the callback threw: no more");
    CHECK(session->length() == held);
  }
}

TEST_CASE("a prompt that is told must fit the context; what follows may shift it") {
  const auto engine = load(1, 128);
  GenerateOptions options = sampled(100);
  options.overflow = ContextOverflow::shift;
  options.keep = 5;
  CHECK(!tokens_of(*open(*engine), text(140, 1), options).empty());
  const Told refused = told(*open(*engine), text(140, 1), options);
  REQUIRE(!refused.result.has_value());
  CHECK(refused.result.error().code() == StatusCode::does_not_fit);
  const Told found = told(*open(*engine), text(100, 1), options);
  REQUIRE_MESSAGE(found.result.has_value(), found.result.error().message());
  CHECK(found.result->shifted_tokens > 0);
  check(found.prompt, places_of(*engine, text(100, 1)));
  CHECK(found.tokens == tokens_of(*open(*engine), text(100, 1), options));
}

TEST_CASE("drafts, grammars and greedy decoding after a prompt that is told") {
  LoadOptions load;
  load.threads = 1;
  load.context = 512;
  load.drafters = {"ngram"};
  const auto engine = Engine::load(kModel, load).value();
  const auto check_with = [&](auto set) {
    GenerateOptions options = sampled(40);
    set(options);
    const Told found = told(*open(*engine), text(90, 1), options);
    REQUIRE_MESSAGE(found.result.has_value(), found.result.error().message());
    check(found.prompt, places_of(*engine, text(90, 1)));
    CHECK(found.tokens == tokens_of(*open(*engine), text(90, 1), options));
  };
  check_with([](GenerateOptions& o) { o.draft_tokens = 4; });
  check_with([](GenerateOptions& o) { o.sampling.temperature = 0.0f; });
  check_with([](GenerateOptions& o) { o.grammar = "root ::= [a-z ]*"; });
}
