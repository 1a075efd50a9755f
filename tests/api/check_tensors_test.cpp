// LoadOptions::check_tensors: NaN and infinity among the weights.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/core/dtype.h"
#include "engine/weights/weight_source.h"
#include "infer/infer.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Writes two bytes into a tensor of a model file.
void damage(const std::string& path, const Weight& weight, int64_t offset, uint16_t bits) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(weight.place.offset) + offset);
  file.write(reinterpret_cast<const char*>(&bits), sizeof(bits));
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("check_tensors names the tensor and the element that is NaN or infinite") {
  const TempDir folder;
  const Result<std::unique_ptr<WeightSource>> source = open_model(kModel);
  REQUIRE(source.has_value());
  int damaged = 0;
  for (const Weight& weight : (*source)->weights()) {
    CAPTURE(weight.name);
    const std::string path = folder.path("model.gguf");
    std::filesystem::copy_file(kModel, path, std::filesystem::copy_options::overwrite_existing);
    const DTypeInfo& type = dtype_info(weight.desc.type);
    const int64_t rows = weight.desc.rows();
    // Of the last block the scale of Q4_0, or the upper half of a float: what counts is the last
    // row and the column where its last block begins.
    const int64_t last = weight.desc.extent_bytes() - type.block_bytes;
    const int64_t column = weight.desc.shape[0] - type.block_elements;
    const bool q4 = weight.desc.type == DType::q4_0;
    if (!q4 && weight.desc.type != DType::f32) continue;
    for (const bool nan : {true, false}) {
      const uint16_t bits = q4 ? (nan ? 0x7e00 : 0x7c00) : (nan ? 0x7fc0 : 0xff80);
      if (!q4) damage(path, weight, last, 0);
      damage(path, weight, last + (q4 ? 0 : 2), bits);
      LoadOptions options;
      options.threads = 3;
      options.context = 128;
      CHECK(Engine::load(path, options).has_value());
      options.check_tensors = true;
      CHECK(plan_model(path, options).has_value());  // reads the header alone
      const auto engine = Engine::load(path, options);
      REQUIRE(!engine.has_value());
      CHECK(engine.error().code() == StatusCode::bad_file);
      const std::string& message = engine.error().message();
      CHECK(message.starts_with(path + ": tensor '" + weight.name + "': "));
      // Infinity times a code of 0 is NaN.
      if (!q4) CHECK(message.find(nan ? "found NaN" : "found infinity") != std::string::npos);
      CHECK(message.ends_with("in column " + std::to_string(column) + " of row " +
                              std::to_string(rows - 1)));
    }
    if (++damaged == 12) break;
  }
  CHECK(damaged == 12);
}

TEST_CASE("check_tensors looks at a draft model and leaves a good model as it is") {
  const auto expected = tokens_of(*open(*load()), kPrompt, sampled(12));
  LoadOptions options;
  options.threads = 1;
  options.context = 512;
  options.check_tensors = true;
  for (const bool mmap : {false, true}) {
    options.mmap = mmap;
    const auto engine = Engine::load(kModel, options);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    CHECK(tokens_of(*open(**engine), kPrompt, sampled(12)) == expected);
  }
  const TempDir folder;
  options.draft_model = folder.path("draft.gguf");
  std::filesystem::copy_file(kModel, options.draft_model);
  CHECK(Engine::load(kModel, options).has_value());
  damage(options.draft_model, (*open_model(kModel))->weights().back(), 0, 0x7e00);
  const auto engine = Engine::load(kModel, options);
  REQUIRE(!engine.has_value());
  CHECK(engine.error().message().starts_with(options.draft_model + ": tensor '"));
}

TEST_CASE("check_tensors can be cancelled, and a callback may throw") {
  LoadOptions options;
  options.check_tensors = true;
  int calls = 0;
  options.progress = [&](double done) {
    CHECK(done == 0);
    return ++calls < 3;
  };
  CHECK(Engine::load(kModel, options).error().code() == StatusCode::cancelled);
  CHECK(calls == 3);
  options.progress = [](double) -> bool { throw std::runtime_error("no more"); };
  const Status thrown = Engine::load(kModel, options).error();
  CHECK(thrown.code() == StatusCode::invalid_argument);
  CHECK(thrown.message().find("no more") != std::string::npos);
}
