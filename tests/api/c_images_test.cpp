// The C API of images: the same answer as in C++, and what is refused.
#include <cstring>

#include "tests/api/c_model.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string data(const char* name) { return data_path(std::string("vision/") + name); }

infer_engine* load_seeing(const std::string& tower) {
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  options.context = 256;
  options.threads = 1;
  options.vision = tower.empty() ? nullptr : tower.c_str();
  infer_engine* engine = nullptr;
  REQUIRE(infer_engine_load(data("tiny.gguf").c_str(), &options, &engine) == INFER_OK);
  return engine;
}

}  // namespace

TEST_CASE("C: a prompt with an image has the answer of C++") {
  const std::string tower = data("tiny-mmproj.gguf");
  const std::string file = read_text(data("tall.png"));
  infer_engine* engine = load_seeing(tower);
  CHECK(infer_engine_reads_images(engine) == 1);
  infer_image* image = nullptr;
  REQUIRE(infer_image_read(engine, file.data(), file.size(), "tall.png", &image) == INFER_OK);
  size_t rows = 0;
  const int32_t* own = infer_image_tokens(image, &rows);
  REQUIRE(rows > 1);
  CHECK(own[0] < 0);
  const std::string text = std::string("See ") + infer_engine_image_text(engine) + " here";
  const infer_image* images[] = {image};
  const uint32_t flags = INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL;
  size_t count = 0;
  REQUIRE(infer_tokenize_with_images(engine, text.data(), text.size(), flags, images, 1, nullptr, 0,
                                     &count) == INFER_OK);
  std::vector<int32_t> prompt(count);
  REQUIRE(infer_tokenize_with_images(engine, text.data(), text.size(), flags, images, 1,
                                     prompt.data(), prompt.size(), &count) == INFER_OK);
  CHECK(std::ranges::count_if(prompt, [](int32_t token) { return token < 0; }) ==
        static_cast<ptrdiff_t>(rows));
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  infer_generate_options options = generate_c(8);
  Seen seen;
  CHECK(infer_generate(session, prompt.data(), prompt.size(), &options, on_token, &seen) ==
        INFER_INVALID_ARGUMENT);
  REQUIRE(infer_session_set_images(session, images, 1) == INFER_OK);
  infer_image_free(image);
  infer_generate_options refused = options;
  refused.stop_count = 1;  // without any
  for (int round = 0; round < 2; ++round) {
    CHECK(infer_generate(session, prompt.data(), prompt.size(), &refused, on_token, &seen) ==
          INFER_INVALID_ARGUMENT);
    CHECK(infer_generate(session, prompt.data(), 0, &options, on_token, &seen) ==
          INFER_INVALID_ARGUMENT);  // an image and no place
  }
  REQUIRE(infer_generate(session, prompt.data(), prompt.size(), &options, on_token, &seen) ==
          INFER_OK);

  LoadOptions load;
  load.context = 256;
  load.threads = 1;
  load.vision = tower;
  const auto other = Engine::load(data("tiny.gguf"), load).value();
  GenerateOptions generate;
  generate.max_tokens = 8;
  generate.ignore_end = true;
  generate.sampling.temperature = 1.0f;
  generate.sampling.seed = 7;
  generate.images.push_back(other->read_image(std::as_bytes(std::span(file)), "tall.png").value());
  const auto tokens = other->tokenize(text, {}, generate.images).value();
  CHECK(tokens == prompt);
  std::vector<int32_t> expected;
  const auto take = [&](int32_t token, std::string_view) {
    if (token >= 0) expected.push_back(token);
    return true;
  };
  REQUIRE(other->open_session().value()->generate(tokens, generate, take).has_value());
  CHECK(seen.tokens == expected);
  infer_session_free(session);
  infer_engine_free(engine);
}

TEST_CASE("C: images that are none, and engines that read none") {
  const std::string file = read_text(data("tall.png"));
  infer_engine* engine = load_seeing("");
  infer_image* image = nullptr;
  CHECK(infer_engine_reads_images(engine) == 0);
  CHECK(infer_engine_reads_images(nullptr) == 0);
  CHECK(std::strcmp(infer_engine_image_text(engine), "") == 0);
  CHECK(std::strcmp(infer_engine_image_text(nullptr), "") == 0);
  CHECK(infer_image_read(engine, file.data(), file.size(), "tall.png", &image) ==
        INFER_UNSUPPORTED);
  infer_engine_free(engine);
  engine = load_seeing(data("tiny-mmproj.gguf"));
  CHECK(infer_image_read(engine, file.data(), 100, "cut.png", &image) == INFER_BAD_FILE);
  CHECK(std::string(infer_last_error()).starts_with("cut.png"));
  CHECK(infer_image_read(nullptr, file.data(), file.size(), "a", &image) == INFER_INVALID_ARGUMENT);
  CHECK(infer_image_read(engine, nullptr, 1, "a", &image) == INFER_INVALID_ARGUMENT);
  CHECK(infer_image_read(engine, file.data(), 1, nullptr, &image) == INFER_INVALID_ARGUMENT);
  CHECK(infer_image_read(engine, file.data(), 1, "a", nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(image == nullptr);
  size_t count = 1;
  CHECK(infer_image_tokens(nullptr, &count) == nullptr);
  CHECK(count == 0);
  infer_image_free(nullptr);
  const infer_image* none[] = {nullptr};
  int32_t tokens[4];
  CHECK(infer_tokenize_with_images(engine, "a", 1, 0, none, 1, tokens, 4, &count) ==
        INFER_INVALID_ARGUMENT);
  CHECK(infer_tokenize_with_images(engine, "a", 1, 0, nullptr, 1, tokens, 4, &count) ==
        INFER_INVALID_ARGUMENT);
  CHECK(infer_tokenize_with_images(engine, "a", 1, 1024, nullptr, 0, tokens, 4, &count) ==
        INFER_INVALID_ARGUMENT);
  CHECK(infer_session_set_images(nullptr, nullptr, 0) == INFER_INVALID_ARGUMENT);
  infer_engine_free(engine);
}
