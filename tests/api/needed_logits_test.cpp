// A device that finds the logits that matter: it is asked where they are few, and texts stay the
// same.
#include <doctest.h>

#include "engine/session/engine_impl.h"
#include "tests/api/model.h"
#include "tests/test_device.h"

namespace infer {
namespace {

struct Ran {
  std::vector<int32_t> tokens;
  int64_t searched = 0;
};

Ran run(bool searches, const GenerateOptions& options) {
  test::TestDevice* device = nullptr;
  const auto open = [&](const std::string& name, const DeviceOptions&) {
    auto made = std::make_unique<test::TestDevice>(name);
    made->visible = false;
    made->searches = searches;
    device = made.get();
    return Result<std::unique_ptr<Device>>(std::move(made));
  };
  LoadOptions load;
  load.context = 256;
  const auto engine = Engine::Impl::open(test::kModel, load, open).value();
  const auto session = engine->open_session().value();
  Ran ran;
  const auto done = session->generate(test::kPrompt, options, [&](int32_t token, std::string_view) {
    ran.tokens.push_back(token);
    return true;
  });
  REQUIRE(done.has_value());
  ran.searched = device->searched;
  return ran;
}

TEST_CASE("logits that decide nothing stay on the device") {
  const auto check = [](bool asked, auto set) {
    GenerateOptions options = test::sampled(24);
    options.ignore_end = true;
    set(options);
    const Ran with = run(true, options);
    const Ran without = run(false, options);
    CHECK(with.tokens == without.tokens);
    CHECK(!with.tokens.empty());
    CHECK(without.searched == 0);
    CHECK(with.searched == (asked ? 24 : 0));
  };
  check(true, [](GenerateOptions& o) { o.sampling.temperature = 0.0f; });
  check(true, [](GenerateOptions& o) { o.sampling.top_k = 5; });
  check(true, [](GenerateOptions& o) {
    o.sampling.top_p = 1.0f;
    o.sampling.min_p = 0.1f;
  });
  check(false, [](GenerateOptions&) {});
  check(false, [](GenerateOptions& o) {
    o.sampling.top_k = 5;
    o.logprobs = 2;
  });
  check(false, [](GenerateOptions& o) {
    o.sampling.temperature = 0.0f;
    o.grammar = "root ::= [a-z]*";
  });
  // Before its mark a grammar needs none.
  check(true, [](GenerateOptions& o) {
    o.sampling.temperature = 0.0f;
    o.grammar = "root ::= \"\\x07\" [a-z]*";
    o.grammar_start.marks = {"\x07"};
  });
}

}  // namespace
}  // namespace infer
