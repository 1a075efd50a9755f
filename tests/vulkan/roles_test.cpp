// Two numeric classes in whole sessions: what is generated depends on tokens and their roles alone,
// whatever else is computed, and whenever it is computed again.
#include <doctest.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <utility>

#include "tests/api/model.h"
#include "tests/api/told_text.h"
#include "tests/golden/golden.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

using infer::test::generate;
using infer::test::kModel;
using infer::test::open;
using infer::test::sampled;
using infer::test::Text;
using infer::test::text;

LoadOptions options_of(int64_t context, int32_t rows) {
  LoadOptions options;
  options.device = "vulkan";
  options.threads = 1;
  options.context = context;
  options.batch_rows = rows;
  return options;
}

std::unique_ptr<Engine> load_with(const LoadOptions& options) {
  auto engine = load_tuned(kModel, options, with_matrices({}));
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

/// Three prompts that begin alike, of different lengths.
std::vector<int32_t> prompt_of(size_t i) {
  std::vector<int32_t> prompt = text(9, 1);
  const std::vector<int32_t> own = text(static_cast<int64_t>(i) * 23, static_cast<int32_t>(i));
  prompt.insert(prompt.end(), own.begin(), own.end());
  return prompt;
}

TEST_CASE("roles: sequences that come while others generate change nothing") {
  if (!has_matrices()) return;
  constexpr size_t kSequences = 3;
  std::vector<Text> alone;
  {
    const auto engine = load_with(options_of(256, 64));
    for (size_t i = 0; i < kSequences; ++i) {
      alone.push_back(generate(*open(*engine), prompt_of(i), sampled(20, i)));
      CHECK(alone.back().size() == 20);
    }
  }
  for (const int32_t rows : {64, 7, 3, 1}) {
    CAPTURE(rows);
    const auto engine = load_with(options_of(256, rows));
    std::vector<std::future<Text>> texts;
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < kSequences; ++i) sessions.push_back(open(*engine));
    for (size_t i = 0; i < kSequences; ++i) {
      texts.push_back(std::async(std::launch::async, [&, i] {
        // The next one comes in the middle of this one's text.
        return generate(*sessions[i], prompt_of(i), sampled(20, i));
      }));
      if (i == 0) test::wait_for_sequences(*engine, 1);
    }
    for (size_t i = 0; i < kSequences; ++i) CHECK(texts[i].get() == alone[i]);
  }
}

TEST_CASE("roles: tokens keep theirs where they are computed again") {
  if (!has_matrices()) return;
  const std::string file = (std::filesystem::temp_directory_path() / "infer-roles-test").string();
  const std::vector<int32_t> second = text(11, 5);
  Text first_turn, second_turn, undisturbed;
  {
    const auto engine = load_with(options_of(256, 64));
    const auto session = open(*engine);
    first_turn = generate(*session, text(30, 2), sampled(70));
    REQUIRE(session->save(file).ok());
    second_turn = generate(*session, second, sampled(20));
    CHECK(second_turn.size() == 20);
  }
  // Nobody is in use: all pages are lost.
  const auto drop = [](Engine& engine) {
    EngineAccess::impl(engine).thread->call([&] {
      KvCache& cache = *EngineAccess::impl(engine).cache;
      std::vector<int32_t> before;
      for (size_t k = 0; k < cache.kinds(); ++k) before.push_back(cache.size(k));
      CHECK(cache.resize(std::vector<int32_t>(cache.kinds(), 1)).ok());
      CHECK(cache.resize(before).ok());
    });
  };
  const auto engine = load_with(options_of(256, 64));
  const auto session = open(*engine);
  CHECK(generate(*session, text(30, 2), sampled(70)) == first_turn);
  drop(*engine);
  CHECK(generate(*session, second, sampled(20)) == second_turn);
  const auto restored = open(*engine);
  REQUIRE(restored->restore(file).ok());
  drop(*engine);
  CHECK(generate(*restored, second, sampled(20)) == second_turn);
  std::filesystem::remove(file);
}

TEST_CASE("roles: a shifted context is the same beside others") {
  if (!has_matrices()) return;
  GenerateOptions shifting = sampled(150);
  shifting.overflow = ContextOverflow::shift;
  shifting.keep = 5;
  const std::vector<int32_t> prompt = text(40, 3);
  const auto engine = load_with(options_of(128, 16));
  const Text alone = generate(*open(*engine), prompt, shifting);
  CHECK(alone.size() == 150);
  const auto one = open(*engine);
  const auto two = open(*engine);
  auto first = std::async(std::launch::async, [&] { return generate(*one, prompt, shifting); });
  auto other =
      std::async(std::launch::async, [&] { return generate(*two, text(60, 9), sampled(50)); });
  CHECK(first.get() == alone);
  CHECK(other.get().size() == 50);
}

TEST_CASE("roles: a text that was generated is another prefix than the same text given") {
  if (!has_matrices()) return;
  const std::vector<int32_t> prompt = text(70, 4);
  std::vector<int32_t> given = prompt;
  const auto engine = load_with(options_of(512, 64));
  {
    const auto session = open(*engine);
    for (const auto& [token, probability] : generate(*session, prompt, sampled(150))) {
      given.push_back(token);
    }
  }
  const auto fresh = load_with(options_of(512, 64));
  const Text expected = generate(*open(*fresh), given, sampled(10));
  const auto again = open(*engine);
  CHECK(generate(*again, given, sampled(10)) == expected);
  CHECK(again->statistics().reused_tokens == 70);  // the prompt alone
  const auto known = open(*engine);
  CHECK(generate(*known, given, sampled(10)) == expected);
  CHECK(known->statistics().reused_tokens == 192);
}

TEST_CASE("roles: drafts change no token") {
  if (!has_matrices()) return;
  const auto plain = load_with(options_of(256, 64));
  const Text expected = generate(*open(*plain), text(40, 6), sampled(60));
  LoadOptions drafting = options_of(256, 64);
  drafting.drafters = {"ngram", "suffix"};
  const auto engine = load_with(drafting);
  int64_t drafted = 0;
  for (const int32_t depth : {1, 6}) {
    GenerateOptions options = sampled(60);
    options.draft_tokens = depth;
    const auto session = open(*engine);
    CHECK(generate(*session, text(40, 6), options) == expected);
    drafted += session->statistics().speculation.drafted;
  }
  CHECK(drafted > 0);
}

TEST_CASE("roles: exact computation has one class, and no rate of another") {
  if (!has_matrices()) return;
  const auto device = open_tuned(with_matrices({})).value();
  const auto exact = open_tuned(with_matrices({}), true).value();
  CHECK(device->two_classes());
  CHECK_FALSE(exact->two_classes());
  CHECK(device->measure_ceilings().prompt_mac_g_s > 0);
  CHECK(exact->measure_ceilings().prompt_mac_g_s == 0);
}

}  // namespace
}  // namespace infer::vulkan
