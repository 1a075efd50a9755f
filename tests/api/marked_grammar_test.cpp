// Generations whose grammar begins at a mark: what is before and behind it, also with drafts, forks
// and stop strings.
#include <string>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

struct Made {
  std::vector<int32_t> tokens;
  std::string text;
  FinishReason reason = FinishReason::length;
  bool operator==(const Made&) const = default;
};

Made run(Session& session, const GenerateOptions& options,
         const std::vector<int32_t>& prompt = kPrompt) {
  Made made;
  const auto result = session.generate(prompt, options, [&](int32_t token, std::string_view text) {
    if (token >= 0) made.tokens.push_back(token);
    made.text += text;
    return true;
  });
  REQUIRE_MESSAGE(result, (result ? "" : result.error().message()));
  made.reason = result->reason;
  return made;
}

/// The letters that the seed's free text has at its tenth byte.
std::string mark_of(const Made& free) {
  for (size_t at = 10; at + 2 < free.text.size(); ++at) {
    const std::string mark = free.text.substr(at, 2);
    const auto plain = [](char c) { return c >= 'a' && c <= 'z'; };
    if (plain(mark[0]) && plain(mark[1])) return mark;
  }
  FAIL("no letters in " << free.text);
  return {};
}

GenerateOptions held(GenerateOptions options, const std::string& mark, bool again) {
  options.grammar = "root ::= \"" + mark + "\" \" [\" [0-9]{2} \"]\"";
  options.grammar_start = {.marks = {mark}, .again = again};
  return options;
}

}  // namespace

TEST_CASE("a grammar that begins at a mark") {
  const auto plain = load();
  LoadOptions load_options;
  load_options.threads = 2;
  load_options.context = 512;
  load_options.draft_model = kModel;
  load_options.drafters = {"model", "suffix", "ngram"};
  const auto drafted = load(load_options);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    GenerateOptions options = sampled(60, seed);
    if (seed == 0) options.sampling.temperature = 0.0f;
    const Made free = run(*open(*plain), options);
    const std::string mark = mark_of(free);
    CAPTURE(mark);
    const Made never = run(*open(*plain), held(options, "\x07\x07", true));
    CHECK(never == free);

    const Made ended = run(*open(*plain), held(options, mark, false));
    const size_t at = ended.text.find(mark);
    REQUIRE(at != std::string::npos);
    CHECK(free.text.starts_with(ended.text.substr(0, at)));
    CHECK(ended.text.substr(at + 2, 2) == " [");
    CHECK(ended.text.size() == at + 7);
    CHECK(ended.text.ends_with("]"));
    CHECK(ended.reason == FinishReason::stop);

    const Made again = run(*open(*plain), held(options, mark, true));
    CHECK(again.text.starts_with(ended.text));
    CHECK(again.tokens.size() == 60);
    CHECK(again.reason == FinishReason::length);
    for (size_t next = again.text.find(mark); next != std::string::npos;
         next = again.text.find(mark, next + 1)) {
      const std::string rest = again.text.substr(next + 2, 5);
      CHECK(std::string(" [").starts_with(rest.substr(0, 2)));
      if (rest.size() == 5) CHECK(rest[4] == ']');
    }
    for (const int32_t drafts : {5, -1, 0}) {
      GenerateOptions with = held(options, mark, true);
      with.draft_tokens = drafts;
      const auto session = open(*drafted);
      CHECK(run(*session, with) == again);
      if (drafts == 5) CHECK(session->statistics().speculation.drafted > 0);
    }
    // The text of a session that was there before does not count.
    const auto session = open(*plain);
    REQUIRE(session->evaluate(kPrompt, {}).ok());
    const auto fork = session->fork().value();
    CHECK(run(*fork, held(options, mark, true), {}) ==
          run(*session, held(options, mark, true), {}));

    GenerateOptions stopped = held(options, mark, false);
    stopped.stop = {mark + " ["};
    const Made before = run(*open(*plain), stopped);
    CHECK(before.text == ended.text.substr(0, at));
    CHECK(before.reason == FinishReason::stop);
    GenerateOptions counted = held(options, mark, true);
    counted.logprobs = 1;
    size_t told = 0;
    counted.on_logprobs = [&](auto) { return ++told > 0; };
    CHECK(run(*open(*plain), counted) == again);
    CHECK(told == 60);
  }
}
