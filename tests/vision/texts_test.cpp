// The text is the same however a prompt with images is computed.
#include <doctest.h>

#include <future>
#include <set>

#include "tests/vision/seeing.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("the text depends on the images and on where they stand") {
  const auto engine = load(seeing(), kSeeing);
  std::set<std::vector<int32_t>> texts;
  for (const auto& [text, files] :
       {std::pair("a [] b [] c", std::vector<std::string>{"tall.png", "blocks.png"}),
        {"a [] b [] c", {"blocks.png", "tall.png"}},
        {"a [] b [] c", {"tall.png", "tall.png"}},
        {"a [][] b  c", {"tall.png", "blocks.png"}},
        {"a [] b  c", {"tall.png"}},
        {"a  b  c", {}}}) {
    texts.insert(answer(*open(*engine), prompt_of(*engine, text, files)));
  }
  CHECK(texts.size() == 6);
}

TEST_CASE("the text is the same however the prompt is divided into steps") {
  std::vector<int32_t> expected;
  for (const int32_t rows : {512, 1, 2, 5, 16, 33}) {
    CAPTURE(rows);
    LoadOptions options = seeing();
    options.batch_rows = rows;
    const auto engine = load(options, kSeeing);
    const std::vector<int32_t> tokens = answer(*open(*engine), usual(*engine));
    if (expected.empty()) expected = tokens;
    CHECK(tokens == expected);
  }
}

TEST_CASE("a prompt with images may come in several turns") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt whole = usual(*engine);
  const std::vector<int32_t> expected = answer(*open(*engine), whole);
  const auto session = open(*engine);
  const auto second =
      std::ranges::find(whole.tokens, whole.images[1].tokens.front()) - whole.tokens.begin();
  const Prompt first{{whole.tokens.begin(), whole.tokens.begin() + second}, {whole.images[0]}};
  const Prompt rest{{whole.tokens.begin() + second, whole.tokens.end()}, {whole.images[1]}};
  REQUIRE(session->generate(first.tokens, greedy(0, first), {}).has_value());
  CHECK(answer(*session, rest) == expected);
  CHECK(session->length() >= std::ssize(whole.tokens) + std::ssize(expected) - 1);

  // The same by evaluate().
  const auto evaluated = open(*engine);
  int64_t told = 0;
  REQUIRE(evaluated
              ->evaluate(
                  first.tokens,
                  [&](int64_t, std::span<const float>) {
                    ++told;
                    return true;
                  },
                  first.images)
              .ok());
  CHECK(told == std::ssize(first.tokens) - kTallRows + 1);  // of an image after its last token
  CHECK(answer(*evaluated, rest) == expected);
}

TEST_CASE("forked sessions go on as the one that they come from") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt prompt = usual(*engine);
  const std::vector<int32_t> expected = answer(*open(*engine), prompt);
  const auto session = open(*engine);
  REQUIRE(session->generate(prompt.tokens, greedy(0, prompt), {}).has_value());
  const Prompt more = prompt_of(*engine, "and [] now", {"tall.png"});
  const auto one = session->fork().value();
  const auto two = session->fork().value();
  const std::vector<int32_t> other = answer(*one, more);
  CHECK(answer(*two, more) == other);
  Prompt joined = prompt;
  joined.tokens.insert(joined.tokens.end(), more.tokens.begin(), more.tokens.end());
  joined.images.push_back(more.images[0]);
  CHECK(answer(*open(*engine), joined) == other);
}

TEST_CASE("truncated anywhere, a session computes what it would compute without that") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt prompt = usual(*engine);
  const std::vector<int32_t> expected = answer(*open(*engine), prompt);
  const auto begin_of = [&](size_t i) {
    return std::ranges::find(prompt.tokens, prompt.images[i].tokens.front()) -
           prompt.tokens.begin();
  };
  for (const int64_t length :
       {int64_t{0}, int64_t{1}, int64_t{begin_of(0)}, begin_of(0) + kTallRows, int64_t{begin_of(1)},
        begin_of(1) + kBlocksRows, int64_t{std::ssize(prompt.tokens) - 1}}) {
    CAPTURE(length);
    const auto session = open(*engine);
    answer(*session, prompt, 10);
    REQUIRE(session->truncate(length).ok());
    Prompt rest{{prompt.tokens.begin() + length, prompt.tokens.end()}, {}};
    for (size_t i = 0; i < 2; ++i) {
      if (begin_of(i) >= length) rest.images.push_back(prompt.images[i]);
    }
    CHECK(answer(*session, rest) == expected);
  }
  // Inside of an image: the beginning of it stays.
  const auto one = open(*engine);
  answer(*one, prompt, 10);
  REQUIRE(one->truncate(begin_of(1) + 5).ok());
  const Prompt text = prompt_of(*engine, "and now", {});
  const std::vector<int32_t> after = answer(*one, text);
  LoadOptions slow = seeing();
  slow.batch_rows = 3;
  slow.prefix_reuse = false;
  const auto other_engine = load(slow, kSeeing);
  const auto two = open(*other_engine);
  answer(*two, prompt, 3);
  REQUIRE(two->truncate(begin_of(1) + 5).ok());
  CHECK(answer(*two, text) == after);
}

TEST_CASE("sessions that have to give up their pages compute their images anew") {
  const auto plain = load(seeing(), kSeeing);
  LoadOptions options = seeing();
  options.context = 192;
  options.batch_rows = 16;
  options.fewer_rows = false;
  options.parallel = 4;
  const auto engine = load(options, kSeeing);
  std::vector<Prompt> prompts;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 5; ++i) {
    prompts.push_back(prompt_of(*engine, std::string(static_cast<size_t>(i), 'x') + " [] and [] so",
                                {i % 2 == 0 ? "tall.png" : "blocks.png", "tall.png"}));
    sessions.push_back(open(*engine));
  }
  std::vector<std::future<std::vector<int32_t>>> running;
  EngineAccess::impl(*engine).thread->hold(true);
  for (size_t i = 0; i < prompts.size(); ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      return tokens_of(*sessions[i], prompts[i].tokens, greedy(100, prompts[i]));
    }));
  }
  wait_for_sequences(*engine, prompts.size());
  EngineAccess::impl(*engine).thread->hold(false);
  for (size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    CHECK(running[i].get() == answer(*open(*plain), prompts[i], 100));
  }
  CHECK(engine->statistics().recomputed_tokens > 0);
}

TEST_CASE("what begins with the same image is taken from the cache, behind another one nothing") {
  const auto engine = load(seeing(), kSeeing);
  LoadOptions alone = seeing();
  alone.prefix_reuse = false;
  const auto plain = load(alone, kSeeing);
  const std::string words(90, 'w');
  const auto asked = [&](Engine& e, const char* file, const char* end) {
    return prompt_of(e, words + "[] and " + words + words + end, {file});
  };
  const Prompt first = asked(*engine, "tall.png", "one");
  const auto begin = std::ranges::find(first.tokens, first.images[0].tokens.front());
  const int64_t before = begin - first.tokens.begin();
  const auto check = [&](const char* file, const char* end, int64_t least, int64_t most) {
    const auto session = open(*engine);
    const Prompt prompt = asked(*engine, file, end);
    CHECK(answer(*session, prompt) == answer(*open(*plain), asked(*plain, file, end)));
    CAPTURE(session->statistics().reused_tokens);
    CHECK(session->statistics().reused_tokens >= least);
    CHECK(session->statistics().reused_tokens <= most);
  };
  check("tall.png", "one", 0, 0);
  check("tall.png", "one", std::ssize(first.tokens) - 1, std::ssize(first.tokens) - 1);
  check("blocks.png", "one", before / 64 * 64, before);
  // Full pages of it: also what is behind an image.
  check("blocks.png", "one", before + kBlocksRows + 64, 1000);
  check("tall.png", "two", before + kTallRows + 64, std::ssize(first.tokens) - 1);
}

TEST_CASE("images and sessions at once") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt prompt = usual(*engine);
  const std::vector<int32_t> expected = answer(*open(*engine), prompt, 100);
  const ModelImage blocks = image(*engine, "blocks.png");
  std::vector<std::future<bool>> running;
  for (int i = 0; i < 4; ++i) {
    running.push_back(std::async(std::launch::async, [&] {
      const auto session = engine->open_session();
      return session && tokens_of(**session, prompt.tokens, greedy(100, prompt)) == expected;
    }));
    running.push_back(std::async(std::launch::async, [&] {
      bool same = true;
      for (int j = 0; j < 20; ++j) {
        const auto found = read(*engine, j % 2 == 0 ? "blocks.png" : "tall.png");
        same = same && found && (j % 2 == 1 || found->tokens == blocks.tokens);
      }
      return same;
    }));
  }
  for (auto& each : running) CHECK(each.get());
}

TEST_CASE("a context with images is not shifted") {
  LoadOptions options = seeing();
  options.context = 64;
  const auto engine = load(options, kSeeing);
  const Prompt prompt = prompt_of(*engine, "a [] b", {"tall.png"});
  GenerateOptions shifting = greedy(100, prompt);
  shifting.overflow = ContextOverflow::shift;
  const auto session = open(*engine);
  const auto result = session->generate(prompt.tokens, shifting, {});
  REQUIRE(result.has_value());
  CHECK(result->reason == FinishReason::context);
  CHECK(result->shifted_tokens == 0);
}
