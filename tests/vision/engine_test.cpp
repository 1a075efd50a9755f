// Images in the API: what is read, where it stands in prompts, and that the text is the same however
// a prompt with images is computed.
#include <doctest.h>

#include <algorithm>
#include <future>
#include <set>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

const std::string kSeeing = data_path("vision/tiny.gguf");
const std::string kTower = data_path("vision/tiny-mmproj.gguf");
constexpr int64_t kTallRows = 15;
constexpr int64_t kBlocksRows = 12;

LoadOptions seeing() {
  LoadOptions options;
  options.threads = 2;
  options.context = 512;
  options.batch_rows = 64;
  options.vision = kTower;
  return options;
}

Result<ModelImage> read(Engine& engine, const std::string& name) {
  const std::string file = read_text(data_path("vision/" + name));
  return engine.read_image(bytes_of(file), name);
}

ModelImage image(Engine& engine, const std::string& name) {
  Result<ModelImage> found = read(engine, name);
  REQUIRE_MESSAGE(found.has_value(), found.error().message());
  return *std::move(found);
}

struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<ModelImage> images;
};

/// A text with places for the images of these files.
Prompt prompt_of(Engine& engine, std::string text, const std::vector<std::string>& files) {
  Prompt prompt;
  for (const std::string& file : files) prompt.images.push_back(image(engine, file));
  for (size_t at = 0; (at = text.find("[]")) != std::string::npos;) {
    text.replace(at, 2, engine.image_text());
  }
  const auto tokens = engine.tokenize(text, TokenizeOptions{}).value();
  prompt.tokens = engine.place_images(tokens, prompt.images).value();
  return prompt;
}

Prompt usual(Engine& engine) {
  return prompt_of(engine, "What is there [] and is there another [] at the end?",
                   {"tall.png", "blocks.png"});
}

GenerateOptions greedy(int32_t count, const Prompt& prompt) {
  GenerateOptions options = sampled(count);
  options.sampling.temperature = 0;
  options.images = prompt.images;
  return options;
}

std::vector<int32_t> answer(Session& session, const Prompt& prompt, int32_t count = 40) {
  const std::vector<int32_t> tokens = tokens_of(session, prompt.tokens, greedy(count, prompt));
  REQUIRE(std::ssize(tokens) == count);
  return tokens;
}

void refused(const Status& status, StatusCode code, const std::string& says) {
  CHECK(status.code() == code);
  CHECK_MESSAGE(status.message().find(says) != std::string::npos, status.message());
}

void refused(const GenerateOptions& options, const std::vector<int32_t>& tokens, Session& session,
             StatusCode code, const std::string& says) {
  const auto result = session.generate(tokens, options, {});
  REQUIRE(!result.has_value());
  refused(result.error(), code, says);
  CHECK(session.length() == 0);
}

}  // namespace

TEST_CASE("an engine reads images if it was loaded with a tower") {
  const auto engine = load(seeing(), kSeeing);
  CHECK(engine->reads_images());
  CHECK(engine->image_text() == "<|vision_start|><|image_pad|><|vision_end|>");
  LoadOptions blind = seeing();
  blind.vision = "";
  const auto other = load(blind, kSeeing);
  CHECK(!other->reads_images());
  CHECK(other->image_text().empty());
  CHECK(other->image_places("<|image_pad|>") == 0);
  const auto none = read(*other, "tall.png");
  REQUIRE(!none.has_value());
  refused(none.error(), StatusCode::unsupported, "tall.png");
}

TEST_CASE("equal pixels give equal tokens, which are below 0, and other ones others") {
  const auto engine = load(seeing(), kSeeing);
  const ModelImage tall = image(*engine, "tall.png");
  CHECK(std::ssize(tall.tokens) == kTallRows);
  CHECK(std::ranges::all_of(tall.tokens, [](int32_t token) { return token < 0; }));
  CHECK(std::set(tall.tokens.begin(), tall.tokens.end()).size() == tall.tokens.size());
  const ModelImage blocks = image(*engine, "blocks.png");
  CHECK(std::ssize(blocks.tokens) == kBlocksRows);
  CHECK(blocks.tokens.front() != tall.tokens.front());
  CHECK(image(*engine, "tall.png").tokens == tall.tokens);
  // What the model sees of it is the same.
  CHECK(image(*engine, "blocks-scaled.png").tokens == blocks.tokens);

  const auto again = load(seeing(), kSeeing);
  CHECK(image(*again, "tall.png").tokens == tall.tokens);
  // Another tower makes other rows of the same pixels.
  const TempDir folder;
  std::string tower = read_text(kTower);
  tower[tower.size() - 70] ^= 1;
  LoadOptions changed = seeing();
  changed.vision = folder.path("tower.gguf");
  write_bytes(changed.vision, bytes_of(tower));
  CHECK(image(*load(changed, kSeeing), "tall.png").tokens.front() != tall.tokens.front());
}

TEST_CASE("files that are no images, and damaged ones, are refused by name") {
  const auto engine = load(seeing(), kSeeing);
  const std::string whole = read_text(data_path("vision/tall.png"));
  for (const std::string& file : {std::string(), std::string("no image at all"), whole.substr(0, 8),
                                  whole.substr(0, 60), whole.substr(0, whole.size() / 2)}) {
    const auto found = engine->read_image(bytes_of(file), "some name");
    REQUIRE(!found.has_value());
    refused(found.error(), StatusCode::bad_file, "some name");
  }
  CHECK(image(*engine, "tall.png").tokens.size() == kTallRows);
}

TEST_CASE("places for images in texts and prompts") {
  const auto engine = load(seeing(), kSeeing);
  CHECK(engine->image_places("") == 0);
  CHECK(engine->image_places("text") == 0);
  CHECK(engine->image_places("<|image_pad|") == 0);
  CHECK(engine->image_places(engine->image_text()) == 1);
  CHECK(engine->image_places("<|image_pad|><|image_pad|> and <|image_pad|>") == 3);

  const ModelImage tall = image(*engine, "tall.png");
  const ModelImage blocks = image(*engine, "blocks.png");
  const int32_t mark = engine->tokenize("<|image_pad|>", TokenizeOptions{}).value().front();
  const std::vector<ModelImage> both{tall, blocks};
  std::vector<int32_t> expected{5};
  expected.insert(expected.end(), tall.tokens.begin(), tall.tokens.end());
  expected.push_back(6);
  expected.insert(expected.end(), blocks.tokens.begin(), blocks.tokens.end());
  CHECK(engine->place_images(std::vector{5, mark, 6, mark}, both).value() == expected);
  CHECK(engine->place_images(std::vector{5, 6}, {}).value() == std::vector{5, 6});
  for (const std::vector<int32_t>& wrong :
       {std::vector{5}, {mark}, {mark, mark, mark}, std::vector<int32_t>{}}) {
    const auto placed = engine->place_images(wrong, both);
    REQUIRE(!placed.has_value());
    refused(placed.error(), StatusCode::invalid_argument, "2 images");
  }
  CHECK(!engine->place_images(std::vector{mark}, {}).has_value());
  LoadOptions blind = seeing();
  blind.vision = "";
  const auto other = load(blind, kSeeing);
  CHECK(other->place_images(std::vector{5, mark}, {}).value() == std::vector{5, mark});
  CHECK(!other->place_images(std::vector{5, mark}, std::vector{tall}).has_value());
}

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
              ->evaluate(first.tokens,
                         [&](int64_t, std::span<const float>) {
                           ++told;
                           return true;
                         },
                         first.images)
              .ok());
  CHECK(told == std::ssize(first.tokens));
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

TEST_CASE("what begins with the same image is taken from the cache, and nothing behind another one") {
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

TEST_CASE("sessions with images are not saved, and such prompts have no log-probabilities") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt prompt = usual(*engine);
  const TempDir folder;
  const auto session = open(*engine);
  answer(*session, prompt, 5);
  refused(session->save(folder.path("state")), StatusCode::unsupported, "images");
  // Without them it is one like any other.
  REQUIRE(session->truncate(3).ok());
  CHECK(session->save(folder.path("state")).ok());
  GenerateOptions options = greedy(5, prompt);
  options.prompt_logprobs = 2;
  refused(options, prompt.tokens, *open(*engine), StatusCode::unsupported, "prompt_logprobs");
}

TEST_CASE("images that the prompt does not have, or has otherwise, are refused") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt prompt = usual(*engine);
  const auto session = open(*engine);
  const auto with = [&](std::vector<ModelImage> images) {
    GenerateOptions options = greedy(5, prompt);
    options.images = std::move(images);
    return options;
  };
  const ModelImage& one = prompt.images[0];
  const ModelImage& two = prompt.images[1];
  const auto wrong = StatusCode::invalid_argument;
  refused(with({}), prompt.tokens, *session, wrong, "vocabulary");
  refused(with({one}), prompt.tokens, *session, wrong, "vocabulary");
  refused(with({two}), prompt.tokens, *session, wrong, "vocabulary");
  refused(with({two, one}), prompt.tokens, *session, wrong, "vocabulary");
  refused(with({one, two, one}), prompt.tokens, *session, wrong, "images");
  refused(with({one}), {1, 2, 3}, *session, wrong, "images");
  refused(with({ModelImage{}}), {1, 2, 3}, *session, wrong, "images");
  // A part of an image, and one whose tokens are another's.
  std::vector<int32_t> part = prompt.tokens;
  part.erase(std::ranges::find(part, one.tokens.back()));
  refused(with({one, two}), part, *session, wrong, "vocabulary");
  refused(with({ModelImage{one.tokens, two.rows}, two}), prompt.tokens, *session, wrong,
          "vocabulary");
  refused(with({ModelImage{one.tokens, nullptr}, two}), prompt.tokens, *session, wrong,
          "vocabulary");
  refused(session->evaluate(prompt.tokens, [](int64_t, std::span<const float>) { return true; }),
          wrong, "vocabulary");
  CHECK(answer(*session, prompt, 5).size() == 5);
}

TEST_CASE("a tower takes the memory that was planned") {
  LoadOptions options = seeing();
  LoadOptions blind = seeing();
  blind.vision = "";
  const MemoryReport plain = plan_model(kSeeing, blind).value();
  for (const int32_t most : {4, 64, 1024}) {
    CAPTURE(most);
    options.image_tokens = most;
    const MemoryReport planned = plan_model(kSeeing, options).value();
    CHECK(planned.weights > plain.weights);
    CHECK(planned.activations > plain.activations);
    CHECK(planned.kv == plain.kv);
    const auto engine = load(options, kSeeing);
    const auto taken = [&] {
      const MemoryReport report = engine->memory();
      CHECK(report.weights == planned.weights);
      CHECK(report.kv == planned.kv);
      CHECK(report.activations == planned.activations);
      CHECK(report.scratch == planned.scratch);
    };
    taken();
    const Prompt prompt = usual(*engine);
    answer(*open(*engine), prompt);
    taken();
  }
}
