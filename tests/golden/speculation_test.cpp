// Speculation changes no token: whoever drafts, however much, greedy or sampled, alone or together.
#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "infer/infer.hpp"
#include "tests/golden/golden.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::vector<int32_t> generated(Session& session, std::span<const int32_t> prompt,
                               const GenerateOptions& options,
                               SpeculationStatistics* statistics = nullptr) {
  std::vector<int32_t> tokens;
  const auto result = session.generate(prompt, options, [&](int32_t token, std::string_view) {
    if (token >= 0) tokens.push_back(token);
    return true;
  });
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message()));
  CHECK(static_cast<int64_t>(tokens.size()) == result->generated_tokens);
  const SpeculationStatistics& s = result->speculation;
  if (statistics != nullptr) {
    statistics->drafted += s.drafted;
    statistics->accepted += s.accepted;
    statistics->tokens += s.tokens;
  }
  CHECK(s.accepted <= s.drafted);
  int64_t steps = 0, drafted = 0, accepted = 0, refused = 0;
  for (size_t n = 0; n < s.lengths.size(); ++n) {
    steps += s.lengths[n].steps;
    drafted += s.lengths[n].steps * static_cast<int64_t>(n);
    accepted += s.lengths[n].accepted;
    refused += s.lengths[n].refused;
  }
  CHECK(steps + accepted == s.tokens);
  CHECK(drafted == s.drafted);
  CHECK(accepted == s.accepted);
  CHECK(refused <= s.drafted - s.accepted);
  CHECK(s.tokens <= result->generated_tokens + 1);
  return tokens;
}

std::unique_ptr<Engine> load(const std::string& path, const LoadOptions& options) {
  auto engine = Engine::load(path, options);
  REQUIRE_MESSAGE(engine.has_value(), (engine ? "" : engine.error().message()));
  return std::move(*engine);
}

GenerateOptions greedy(int32_t tokens) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.ignore_end = true;
  options.sampling.temperature = 0.0f;
  return options;
}

/// Different chains for different seeds.
GenerateOptions sampled(int32_t tokens, uint64_t seed) {
  GenerateOptions options = greedy(tokens);
  SamplingOptions& s = options.sampling;
  s.seed = seed;
  s.temperature = 0.7f;
  switch (seed % 5) {
    case 0: s.top_k = 8; break;
    case 1: s.mirostat = 2; break;
    case 2:
      s.repeat_penalty = 1.2f;
      s.dry_multiplier = 0.8f;
      break;
    case 3: s.xtc_probability = 0.5f; break;
    default: s.samplers = {"temperature"};
  }
  return options;
}

struct Drafts {
  std::vector<std::string> drafters;
  int32_t tokens;
};

const std::vector<Drafts> kDrafts = {{{"ngram"}, -1},  {{"ngram"}, 5},           {{"suffix"}, 1},
                                     {{"suffix"}, 32}, {{"model"}, -1},          {{"model"}, 2},
                                     {{"model"}, 7},   {{"suffix", "model"}, -1}};

struct Totals {
  int64_t greedy = 0;
  int64_t sampled = 0;
  SpeculationStatistics statistics;
};

constexpr int32_t kTokens = 60;

/// With every other of kDrafts, from `first_drafts` on.
void compare(const std::string& path, const std::string& draft, const LoadOptions& base,
             std::span<const int32_t> prompt, size_t first_drafts, Totals& totals) {
  const auto plain = load(path, base);
  std::vector<std::vector<int32_t>> expected{
      generated(*plain->open_session().value(), prompt, greedy(kTokens))};
  const uint64_t first_seed = totals.sampled % 5;
  for (uint64_t seed = first_seed; seed < first_seed + 2; ++seed) {
    expected.push_back(generated(*plain->open_session().value(), prompt, sampled(kTokens, seed)));
  }
  for (size_t d = first_drafts; d < kDrafts.size(); d += 2) {
    const Drafts& drafts = kDrafts[d];
    CAPTURE(drafts.drafters.back());
    CAPTURE(drafts.tokens);
    LoadOptions options = base;
    options.drafters = drafts.drafters;
    if (drafts.drafters.back() == "model") options.draft_model = draft;
    const auto engine = load(path, options);
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      GenerateOptions how = i == 0 ? greedy(kTokens) : sampled(kTokens, first_seed + i - 1);
      how.draft_tokens = drafts.tokens;
      const auto session = engine->open_session().value();
      const auto tokens = generated(*session, prompt, how, &totals.statistics);
      CHECK(tokens == expected[i]);
      (i == 0 ? totals.greedy : totals.sampled) += static_cast<int64_t>(tokens.size());
    }
  }
}

}  // namespace

TEST_CASE("with any drafter the tokens of every architecture are those without") {
  Totals totals;
  std::vector<GoldenModel> models = golden_models();
  // Texts of two of the other types end within a character, and go on after an end token.
  size_t others = 0;
  std::erase_if(models, [&](const GoldenModel& m) { return is_another_type(m) && ++others > 2; });
  int64_t other_drafts = 0;
  for (size_t m = 0; m < models.size(); ++m) {
    CAPTURE(models[m].name);
    const std::string path = models[m].path;
    LoadOptions options;
    options.threads = m % 4 == 0 ? 2 : 1;
    options.context = 256;
    // Drafts of a model with other weights, where one has this vocabulary.
    std::string draft = path;
    LoadOptions probe = options;
    probe.draft_model = models[(m + 1) % models.size()].path;
    if (plan_model(path, probe).has_value()) {
      draft = probe.draft_model;
      ++other_drafts;
    }
    compare(path, draft, options, models[m].tokens, m % 2, totals);
  }
  std::printf("%zu models, %lld tokens greedy, %lld sampled: drafted %lld, accepted %lld\n",
              models.size(), static_cast<long long>(totals.greedy),
              static_cast<long long>(totals.sampled),
              static_cast<long long>(totals.statistics.drafted),
              static_cast<long long>(totals.statistics.accepted));
  CHECK(other_drafts > 0);
  CHECK(totals.greedy >= 10000);
  CHECK(totals.sampled >= 10000);
  // Both happened often: what was accepted, and what was taken back.
  CHECK(totals.statistics.accepted > 2000);
  CHECK(totals.statistics.drafted - totals.statistics.accepted > 2000);
}

namespace {

const std::string kDemoDraft = INFER_SOURCE_DIR "/app/demo/infer-demo-draft.gguf";

LoadOptions demo_options() {
  LoadOptions options;
  options.draft_model = kDemoDraft;
  options.drafters = {"ngram", "suffix", "model"};
  options.threads = 2;
  return options;
}

const char* const kTexts[] = {
    "Once upon a time",
    "<|im_start|>user\nTell me a story about a fox.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat is 7 + 8?<|im_end|>\n<|im_start|>assistant\n",
    "Q: What is the capital of France?\nA:",
};

}  // namespace

TEST_CASE("sequences together, each with drafts of its own depth, get their own tokens") {
  LoadOptions options = demo_options();
  LoadOptions without;
  without.threads = 1;
  const auto plain = load(kDemo, without);
  for (const bool small : {false, true}) {
    CAPTURE(small);
    if (small) {  // a step holds fewer rows than all want, and the cache too few pages for all
      options.batch_rows = 9;
      options.context = 320;
      options.fewer_rows = false;
    }
    const auto engine = load(kDemo, options);
    constexpr int32_t kDepths[] = {-1, 0, 1, 3, 8, 32};
    std::vector<std::vector<int32_t>> expected(std::size(kDepths)), found(std::size(kDepths));
    std::vector<GenerateOptions> how;
    std::vector<std::vector<int32_t>> prompts;
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      how.push_back(i % 2 == 0 ? greedy(120) : sampled(120, i));
      prompts.push_back(plain->tokenize(kTexts[i % std::size(kTexts)], {}).value());
      expected[i] = generated(*plain->open_session().value(), prompts[i], how[i]);
    }
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      sessions.push_back(engine->open_session().value());
      how[i].draft_tokens = kDepths[i];
    }
    std::vector<std::jthread> callers;
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      callers.emplace_back([&, i] {
        const auto result =
            sessions[i]->generate(prompts[i], how[i], [&](int32_t token, std::string_view) {
              if (token >= 0) found[i].push_back(token);
              return true;
            });
        if (!result) std::fprintf(stderr, "%s\n", result.error().message().c_str());
      });
    }
    callers.clear();
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      CAPTURE(i);
      CHECK(found[i] == expected[i]);
    }
  }
}

TEST_CASE("drafts keep to a schema, and turns, shifts and stop strings are as without them") {
  const auto plain = load(kDemo, {});
  const auto engine = load(kDemo, demo_options());
  LoadOptions short_context = demo_options();
  short_context.context = 128;
  LoadOptions short_plain;
  short_plain.context = 128;
  const auto engine_short = load(kDemo, short_context);
  const auto plain_short = load(kDemo, short_plain);
  for (const int32_t depth : {-1, 4, 16}) {
    CAPTURE(depth);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(seed);
      const std::vector<int32_t> prompt = plain->tokenize(kTexts[seed], {}).value();
      GenerateOptions how = sampled(80, seed);
      how.json_schema = R"({"type": "object", "properties": {"name": {"type": "string"}, "list":
          {"type": "array", "items": {"type": "integer"}}}, "required": ["name", "list"]})";
      const auto schema = generated(*plain->open_session().value(), prompt, how);
      how.draft_tokens = depth;
      CHECK(generated(*engine->open_session().value(), prompt, how) == schema);

      GenerateOptions turn = sampled(50, seed);
      turn.stop = {" fox", "."};
      const auto before = plain->open_session().value();
      const auto with = engine->open_session().value();
      for (int i = 0; i < 3; ++i) {
        turn.draft_tokens = 0;
        const auto expected = generated(*before, prompt, turn);
        turn.draft_tokens = depth;
        CHECK(generated(*with, prompt, turn) == expected);
        CHECK(with->length() == before->length());
        if (i == 1) {
          REQUIRE(before->truncate(before->length() / 2).ok());
          REQUIRE(with->truncate(with->length() / 2).ok());
        }
      }

      GenerateOptions shifting = sampled(300, seed);
      shifting.overflow = ContextOverflow::shift;
      shifting.keep = 3;
      const auto expected = generated(*plain_short->open_session().value(), prompt, shifting);
      CHECK(expected.size() == 300);
      shifting.draft_tokens = depth;
      CHECK(generated(*engine_short->open_session().value(), prompt, shifting) == expected);
    }
  }
}

TEST_CASE("a draft model with another vocabulary changes no token either") {
  LoadOptions options;
  options.drafters = {"model"};
  const std::string other = data_path("bigram.gguf");
  options.draft_model = other;
  SpeculationStatistics statistics;
  const auto engine = load(kDemo, options);
  const auto plain = load(kDemo, {});
  options.draft_model = kDemo;
  const auto engine_of_other = load(other, options);
  const auto plain_other = load(other, {});
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    for (const bool demo : {true, false}) {
      const Engine& without = demo ? *plain : *plain_other;
      const std::vector<int32_t> prompt = without.tokenize(kTexts[i], {}).value();
      GenerateOptions how = i % 2 == 0 ? greedy(100) : sampled(100, i);
      const auto expected =
          generated(*(demo ? plain : plain_other)->open_session().value(), prompt, how);
      for (const int32_t depth : {-1, 3, 32}) {
        how.draft_tokens = depth;
        const auto session = (demo ? engine : engine_of_other)->open_session().value();
        CHECK(generated(*session, prompt, how, &statistics) == expected);
      }
    }
  }
  // These two have little to say to one another: test_other_vocabulary.py has one that does.
  CHECK(statistics.drafted > 1000);
  CHECK(statistics.accepted > 0);
}

TEST_CASE("wrong drafters and draft models are refused with what is wrong") {
  LoadOptions options;
  options.drafters = {"oracle"};
  auto failed = Engine::load(kDemo, options);
  REQUIRE(!failed.has_value());
  CHECK(failed.error().code() == StatusCode::invalid_argument);
  CHECK(failed.error().message().find("'oracle'") != std::string::npos);
  options.drafters = {"model"};
  failed = Engine::load(kDemo, options);
  REQUIRE(!failed.has_value());
  CHECK(failed.error().code() == StatusCode::invalid_argument);
  options.draft_model = "/nowhere.gguf";
  failed = Engine::load(kDemo, options);
  REQUIRE(!failed.has_value());
  CHECK(failed.error().code() == StatusCode::not_found);
  GenerateOptions how;
  how.draft_tokens = -2;
  const auto engine = load(kDemo, {});
  CHECK(!engine->open_session().value()->generate(std::vector<int32_t>{1}, how, {}).has_value());
}
