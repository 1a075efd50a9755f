// Images in the API: what is read, where it stands in prompts, and what is refused.
#include <doctest.h>

#include <set>

#include "tests/vision/seeing.h"

using namespace infer;
using namespace infer::test;

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
    refused(placed.error(), StatusCode::invalid_argument, "found 2");
  }
  CHECK(!engine->place_images(std::vector{mark}, {}).has_value());
  LoadOptions blind = seeing();
  blind.vision = "";
  const auto other = load(blind, kSeeing);
  CHECK(other->place_images(std::vector{5, mark}, {}).value() == std::vector{5, mark});
  CHECK(!other->place_images(std::vector{5, mark}, std::vector{tall}).has_value());
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

TEST_CASE("images that another engine has read are refused where they do not fit the model") {
  const auto engine = load(seeing(), kSeeing);
  const Prompt prompt = usual(*engine);
  LoadOptions blind = seeing();
  blind.vision = "";
  for (const std::string& path : {kSeeing, data_path("golden/llama-q4_0.gguf")}) {
    const auto other = load(blind, path);
    refused(greedy(5, prompt), prompt.tokens, *open(*other), StatusCode::invalid_argument,
            "images");
  }
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
  refused(with({ModelImage{one.tokens, nullptr}, two}), prompt.tokens, *session, wrong, "images");
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
