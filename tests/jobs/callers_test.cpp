// What jobs owe their callers: what they read is never replaced, and what a callback throws is
// told.
#include <doctest.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include "infer/infer.hpp"
#include "infer/jobs.hpp"
#include "tests/support.h"

using namespace infer;
namespace fs = std::filesystem;

namespace {

const std::string kText = [] {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "abcdefgh";
  return text;
}();

LoadOptions small() {
  LoadOptions load;
  load.threads = 1;
  load.context = 128;
  load.device = "cpu";
  return load;
}

void check_refused(const Status& status) {
  CHECK(status.code() == StatusCode::invalid_argument);
  CHECK_MESSAGE(status.message().find("is part of the input") != std::string::npos,
                status.message());
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result ? Status() : result.error();
}

}  // namespace

TEST_CASE("jobs replace nothing that they read") {
  const test::TempDir folder;
  const std::string model = folder.path("model.gguf");
  fs::copy_file(test::data_path("bigram.gguf"), model);
  const auto size = fs::file_size(model);
  const std::string other = folder.path("other.gguf");
  fs::create_hard_link(model, other);

  ImportanceOptions importance;
  importance.load = small();
  importance.chunk = 64;
  for (const std::string& output : {model, other}) {
    check_refused(status_of(measure_importance(model, kText, output, importance)));
  }
  SynthOptions synthetic;
  synthetic.shape = "llama-24m";
  synthetic.vocabulary = model;
  check_refused(synth(other, synthetic));

  auto engine = Engine::load(model, small());
  REQUIRE(engine);
  PerplexityOptions perplexed;
  perplexed.chunk = 64;
  perplexed.save = other;
  check_refused(status_of(perplexity(**engine, kText, perplexed)));
  perplexed.save = folder.path("base.kl");
  REQUIRE(perplexity(**engine, kText, perplexed));
  perplexed.base = perplexed.save;
  check_refused(status_of(perplexity(**engine, kText, perplexed)));

  const std::string matrix = folder.path("imatrix.gguf");
  REQUIRE(measure_importance(model, kText, matrix, importance));
  QuantizeOptions quantized;
  quantized.type = "q8_0";
  quantized.importance = matrix;
  check_refused(status_of(quantize(model, matrix, quantized)));
  CHECK(fs::file_size(model) == size);
}

TEST_CASE("no part of a split model is replaced, however its folder is written") {
  const test::TempDir folder;
  const auto part = [&](const char* number) {
    return folder.path(std::string("m-0000") + number + "-of-00002.gguf");
  };
  fs::copy_file(test::data_path("bigram.gguf"), part("1"));
  fs::copy_file(test::data_path("bigram.gguf"), part("2"));
  fs::create_symlink(part("2"), folder.path("link.gguf"));
  QuantizeOptions options;
  options.type = "q8_0";
  const std::string roundabout = folder.path("") + "/../" +
                                 fs::path(folder.path("")).parent_path().filename().string() +
                                 "/m-00002-of-00002.gguf";
  for (const std::string& output : {part("2"), roundabout, folder.path("link.gguf")}) {
    REQUIRE(fs::exists(output));
    check_refused(status_of(quantize(part("1"), output, options)));
  }
}

TEST_CASE("what a callback throws ends its job and is told") {
  const test::TempDir folder;
  const std::string model = test::data_path("bigram.gguf");
  const auto boo = [](auto...) -> bool { throw std::runtime_error("boo"); };
  const auto check = [](const char* job, const Status& status) {
    CAPTURE(job);
    CHECK(status.code() == StatusCode::invalid_argument);
    CHECK(status.message() == "the callback threw: boo");
  };
  QuantizeOptions quantized;
  quantized.type = "q8_0";
  quantized.progress = boo;
  check("quantize", status_of(quantize(model, folder.path("a.gguf"), quantized)));
  ConvertOptions converted;
  converted.progress = boo;
  check("convert",
        status_of(convert(test::data_path("embed/bert-mean"), folder.path("b.gguf"), converted)));
  SynthOptions synthetic;
  synthetic.shape = "llama-24m";
  synthetic.progress = boo;
  check("synth", synth(folder.path("c.gguf"), synthetic));
  ImportanceOptions importance;
  importance.load = small();
  importance.chunk = 64;
  importance.on_chunk = boo;
  check("imatrix", status_of(measure_importance(model, kText, folder.path("d.gguf"), importance)));
  LoadOptions tested = small();
  tested.progress = boo;
  check("selftest", status_of(selftest(tested, "add")));
  BenchOptions measured;
  measured.load = small();
  measured.prompt_tokens = {64};
  measured.generate_tokens = {8};
  measured.progress = boo;
  check("bench", status_of(bench({model}, measured)));
  auto engine = Engine::load(model, small());
  REQUIRE(engine);
  PerplexityOptions perplexed;
  perplexed.chunk = 64;
  perplexed.on_chunk = boo;
  check("perplexity", status_of(perplexity(**engine, kText, perplexed)));
  // Nothing is left of what was begun.
  CHECK(fs::is_empty(folder.path("")));
}
