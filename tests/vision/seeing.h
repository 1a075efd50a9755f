// The small model that sees, and prompts with images for it.
#pragma once

#include <doctest.h>

#include <algorithm>

#include "tests/api/model.h"

namespace infer::test {

inline const std::string kSeeing = data_path("vision/tiny.gguf");
inline const std::string kTower = data_path("vision/tiny-mmproj.gguf");
constexpr int64_t kTallRows = 15;    // of tall.png
constexpr int64_t kBlocksRows = 12;  // of blocks.png

inline LoadOptions seeing() {
  LoadOptions options;
  options.threads = 1;
  options.context = 512;
  options.batch_rows = 64;
  options.vision = kTower;
  return options;
}

inline Result<ModelImage> read(Engine& engine, const std::string& name) {
  const std::string file = read_text(data_path("vision/" + name));
  return engine.read_image(bytes_of(file), name);
}

inline ModelImage image(Engine& engine, const std::string& name) {
  Result<ModelImage> found = read(engine, name);
  REQUIRE_MESSAGE(found.has_value(), found.error().message());
  return *std::move(found);
}

struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<ModelImage> images;
};

/// A text with places for the images of these files.
inline Prompt prompt_of(Engine& engine, std::string text, const std::vector<std::string>& files) {
  Prompt prompt;
  for (const std::string& file : files) prompt.images.push_back(image(engine, file));
  for (size_t at = 0; (at = text.find("[]")) != std::string::npos;) {
    text.replace(at, 2, engine.image_text());
  }
  const auto tokens = engine.tokenize(text, TokenizeOptions{}).value();
  prompt.tokens = engine.place_images(tokens, prompt.images).value();
  return prompt;
}

inline Prompt usual(Engine& engine) {
  return prompt_of(engine, "What is there [] and is there another [] at the end?",
                   {"tall.png", "blocks.png"});
}

inline GenerateOptions greedy(int32_t count, const Prompt& prompt) {
  GenerateOptions options = sampled(count);
  options.sampling.temperature = 0;
  options.images = prompt.images;
  return options;
}

inline std::vector<int32_t> answer(Session& session, const Prompt& prompt, int32_t count = 40) {
  const std::vector<int32_t> tokens = tokens_of(session, prompt.tokens, greedy(count, prompt));
  REQUIRE(std::ssize(tokens) == count);
  return tokens;
}

inline void refused(const Status& status, StatusCode code, const std::string& says) {
  CHECK(status.code() == code);
  CHECK_MESSAGE(status.message().find(says) != std::string::npos, status.message());
}

inline void refused(const GenerateOptions& options, const std::vector<int32_t>& tokens,
                    Session& session, StatusCode code, const std::string& says) {
  const auto result = session.generate(tokens, options, {});
  REQUIRE(!result.has_value());
  refused(result.error(), code, says);
  CHECK(session.length() == 0);
}

}  // namespace infer::test
