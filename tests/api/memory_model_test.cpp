// Models in memory: the same as from a file.
#include <doctest.h>

#include <fstream>
#include <iterator>

#include "tests/api/model.h"

namespace infer {
namespace {

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<int32_t> text(const std::string& path, LoadOptions options) {
  options.threads = 1;
  const std::unique_ptr<Engine> engine = Engine::load(path, options).value();
  const std::unique_ptr<Session> session = engine->open_session().value();
  std::vector<int32_t> tokens;
  const auto done =
      session->generate(test::kPrompt, test::sampled(24), [&](int32_t token, std::string_view) {
        tokens.push_back(token);
        return true;
      });
  REQUIRE(done.has_value());
  return tokens;
}

TEST_CASE("a model in memory: described, planned and run as from its file") {
  static const std::vector<char> bytes = bytes_of(test::kModel);
  const std::string path = memory_model("small", std::as_bytes(std::span(bytes)));
  CHECK(path == "memory:small");
  const ModelDescription described = describe_model(path).value();
  CHECK(described.parameters == describe_model(test::kModel).value().parameters);
  CHECK(Vocabulary::load(path).value()->size() == described.vocabulary);
  LoadOptions options;
  options.context = 256;
  const std::vector<int32_t> expected = text(test::kModel, options);
  CHECK(text(path, options) == expected);
  options.mmap = true;
  CHECK(text(path, options) == expected);
  // Memory that is no file's keeps what it has, however little there is.
  options.spill = true;
  CHECK(!plan_model(path, options).value().spilled);
  CHECK(plan_model(test::kModel, options).value().spilled);
  CHECK(text(path, options) == expected);
  CHECK(bytes == bytes_of(test::kModel));
}

TEST_CASE("a model in memory: what is none, and what is not there") {
  static const std::vector<char> none(100, 'x');
  const std::string path = memory_model("none", std::as_bytes(std::span(none)));
  CHECK(describe_model(path).error().code() == StatusCode::bad_file);
  CHECK(describe_model("memory:nothing").error().code() == StatusCode::not_found);
  static const std::vector<char> cut = [] {
    std::vector<char> bytes = bytes_of(test::kModel);
    bytes.resize(bytes.size() / 2);
    return bytes;
  }();
  const auto loaded =
      Engine::load(memory_model("none", std::as_bytes(std::span(cut))), LoadOptions());
  REQUIRE(!loaded.has_value());
  CHECK(loaded.error().code() == StatusCode::bad_file);
  CHECK(loaded.error().message().find("memory:none") != std::string::npos);
}

}  // namespace
}  // namespace infer
