// Two numeric classes in whole sessions: what is generated depends on tokens and their roles alone,
// whatever else is computed, and whenever it is computed again.
#include <doctest.h>

#include <cstdio>
#include <future>
#include <utility>

#include "infer/jobs.hpp"
#include "tests/api/model.h"
#include "tests/api/told_text.h"
#include "tests/cuda_driver.h"

namespace infer::cuda {
namespace {

using infer::test::generate;
using infer::test::open;
using infer::test::sampled;
using infer::test::Text;
using infer::test::text;

/// Weights of float16 and heads of 64: prompts differ in products and in attention.
class Model {
 public:
  Model() : path_(dir_.path("roles") + ".gguf") {
    SynthOptions shape;
    shape.shape = "tinyllama-1.1b";
    shape.type = "f16";
    shape.layers = 2;
    shape.embedding = shape.feed_forward = 256;
    shape.heads = 4;
    shape.tokens = 300;
    REQUIRE(synth(path_, shape).ok());
  }

  std::unique_ptr<Engine> load(int32_t rows) const {
    LoadOptions options;
    options.device = "cuda";
    options.threads = 1;
    options.context = 256;
    options.batch_rows = rows;
    auto engine = Engine::load(path_, options);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    return *std::move(engine);
  }

 private:
  test::TempDir dir_;
  std::string path_;
};

/// Prompts that begin alike, of different lengths.
std::vector<int32_t> prompt_of(size_t i) {
  std::vector<int32_t> prompt = text(9, 1);
  const std::vector<int32_t> own = text(static_cast<int64_t>(i) * 23, static_cast<int32_t>(i));
  prompt.insert(prompt.end(), own.begin(), own.end());
  return prompt;
}

TEST_CASE("roles: sequences that come while others generate change nothing") {
  constexpr size_t kSequences = 3;
  constexpr int32_t kTokens = 8;
  const Model model;
  std::vector<Text> alone;
  {
    const auto engine = model.load(64);
    for (size_t i = 0; i < kSequences; ++i) {
      alone.push_back(generate(*open(*engine), prompt_of(i), sampled(kTokens, i)));
      CHECK(alone.back().size() == kTokens);
    }
  }
  for (const int32_t rows : {64, 5}) {
    CAPTURE(rows);
    const auto engine = model.load(rows);
    std::vector<std::future<Text>> texts;
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < kSequences; ++i) sessions.push_back(open(*engine));
    for (size_t i = 0; i < kSequences; ++i) {
      texts.push_back(std::async(std::launch::async, [&, i] {
        // The next one comes in the middle of this one's text.
        return generate(*sessions[i], prompt_of(i), sampled(kTokens, i));
      }));
      if (i == 0) test::wait_for_sequences(*engine, 1);
    }
    for (size_t i = 0; i < kSequences; ++i) CHECK(texts[i].get() == alone[i]);
  }
}

TEST_CASE("roles: tokens keep theirs where they are computed again") {
  const Model model;
  const std::vector<int32_t> second = text(11, 5);
  Text first_turn;
  Text second_turn;
  {
    const auto engine = model.load(64);
    const auto session = open(*engine);
    first_turn = generate(*session, text(30, 2), sampled(40));
    second_turn = generate(*session, second, sampled(8));
    CHECK(second_turn.size() == 8);
  }
  const auto engine = model.load(64);
  const auto session = open(*engine);
  CHECK(generate(*session, text(30, 2), sampled(40)) == first_turn);
  // Nobody is in use: all pages are lost.
  EngineAccess::impl(*engine).thread->call([&] {
    KvCache& cache = *EngineAccess::impl(*engine).cache;
    std::vector<int32_t> before;
    for (size_t k = 0; k < cache.kinds(); ++k) before.push_back(cache.size(k));
    CHECK(cache.resize(std::vector<int32_t>(cache.kinds(), 1)).ok());
    CHECK(cache.resize(before).ok());
  });
  CHECK(generate(*session, second, sampled(8)) == second_turn);
  // The same tokens, given: another class for those that were generated.
  std::vector<int32_t> given = text(30, 2);
  for (const auto& [token, probability] : first_turn) given.push_back(token);
  given.insert(given.end(), second.begin(), second.end());
  const Text as_prompt = generate(*open(*engine), given, sampled(8));
  CHECK(as_prompt.size() == 8);
  CHECK(as_prompt != second_turn);
}

}  // namespace
}  // namespace infer::cuda
