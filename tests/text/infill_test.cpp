// Prompts that ask for the text between two others, put together by hand from the tokens of their
// parts.
#include "engine/text/infill.h"

#include <doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/weight_source.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;
using Ids = std::vector<int32_t>;

namespace {

TokenizerSpec spec_of(const std::string& name) {
  return open_model(data_path("vocab/" + name)).value()->tokenizer();
}

std::unique_ptr<Tokenizer> open_known(const std::string& name) {
  return Tokenizer::create(spec_of(name)).value();
}

Ids ids_of(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special = false, .parse_special = false}).value();
}

Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::string kBefore = "def area(r):\n    return ";
const std::string kAfter = "\n\nprint(area(2))\n";

}  // namespace

TEST_CASE("filling in: the text before, the text after, and what asks for the middle") {
  struct Known {
    const char* file;
    const char *prefix, *suffix, *middle;
    bool begins;
  };
  for (const Known& known :
       {Known{"starcoder.gguf", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", false},
        Known{"deepseek-coder.gguf", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", true}}) {
    CAPTURE(known.file);
    const auto tokenizer = open_known(known.file);
    const auto id = [&](std::string_view text) {
      REQUIRE(tokenizer->token_to_id(text) != kNoToken);
      return Ids{tokenizer->token_to_id(text)};
    };
    CHECK(tokenizer->adds_bos() == known.begins);
    const Ids begin = known.begins ? Ids{tokenizer->bos()} : Ids{};
    const Ids before = ids_of(*tokenizer, kBefore);
    const Ids after = ids_of(*tokenizer, kAfter);
    const Ids found = infill_tokens(*tokenizer, {kBefore, kAfter, {}}, 1000).value();
    CHECK(found ==
          joined({begin, id(known.prefix), before, id(known.suffix), after, id(known.middle)}));
    // A mark in a text is text.
    const Ids marked = infill_tokens(*tokenizer, {known.middle, known.suffix, {}}, 1000).value();
    CHECK(marked == joined({begin, id(known.prefix), ids_of(*tokenizer, known.middle),
                            id(known.suffix), ids_of(*tokenizer, known.suffix), id(known.middle)}));
    const Ids none = infill_tokens(*tokenizer, {}, 1000).value();
    CHECK(none == joined({begin, id(known.prefix), id(known.suffix), id(known.middle)}));
  }
}

TEST_CASE("filling in: what is near stays, other files go first") {
  const auto tokenizer = open_known("starcoder.gguf");
  const Ids prefix{tokenizer->token_to_id("<fim_prefix>")};
  const Ids suffix{tokenizer->token_to_id("<fim_suffix>")};
  const Ids middle{tokenizer->token_to_id("<fim_middle>")};
  REQUIRE(tokenizer->special().fim_rep == kNoToken);
  const Ids before = ids_of(*tokenizer, kBefore);
  const Ids after = ids_of(*tokenizer, kAfter);
  const Ids whole = joined({prefix, before, suffix, after, middle});
  const InfillText text{kBefore, kAfter, {{"a.py", "A = 1\n"}, {"b.py", "B = 2\n"}}};
  const auto file = [&](const std::string& name, const std::string& content) {
    return joined({ids_of(*tokenizer, "\n\n--- " + name + "\n\n"), ids_of(*tokenizer, content)});
  };
  const Ids first = file("a.py", "A = 1\n");
  const Ids last = file("b.py", "B = 2\n");
  const auto most = static_cast<int64_t>(first.size() + last.size() + whole.size());
  CHECK(infill_tokens(*tokenizer, text, most).value() == joined({first, last, whole}));
  CHECK(infill_tokens(*tokenizer, text, most - 1).value() == joined({last, whole}));
  const auto least = static_cast<int64_t>(whole.size());
  CHECK(infill_tokens(*tokenizer, text, least).value() == whole);
  // A quarter of what is left is for the text after; where it needs less, the rest has more.
  for (int64_t room = least - 4; room >= 0; --room) {
    const Ids found = infill_tokens(*tokenizer, text, room + 3).value();
    REQUIRE(std::ssize(found) == room + 3);
    const int64_t most_after = std::max(room / 4, room - std::ssize(before));
    const int64_t count = std::min(most_after, std::ssize(after));
    const Ids near_before(before.end() - (room - count), before.end());
    const Ids near_after(after.begin(), after.begin() + count);
    CHECK(found == joined({prefix, near_before, suffix, near_after, middle}));
  }
  CHECK(infill_tokens(*tokenizer, text, 2).error().code() == StatusCode::does_not_fit);
  CHECK(infill_tokens(*tokenizer, text, -7).error().code() == StatusCode::does_not_fit);
}

TEST_CASE("filling in: no space is put before what goes on, and tokens of files") {
  TokenizerSpec spec = spec_of("llama-spm.gguf");
  spec.fim_pre = 10;
  spec.fim_suf = 11;
  spec.fim_mid = 12;
  spec.fim_rep = 13;
  spec.fim_sep = 14;
  const auto tokenizer = Tokenizer::create(spec).value();
  REQUIRE(tokenizer->adds_space_prefix());
  const Ids found = infill_tokens(*tokenizer, {"int x", "b;", {{"a.c", "y"}}}, 1000).value();
  const Ids expected = joined({{tokenizer->bos(), 13},
                               ids_of(*tokenizer, "project\n"),
                               {14},
                               ids_of(*tokenizer, "a.c\n"),
                               ids_of(*tokenizer, "y"),
                               {14},
                               ids_of(*tokenizer, "filename\n"),
                               {10},
                               ids_of(*tokenizer, "int x"),
                               {11, tokenizer->token_to_id("b"), tokenizer->token_to_id(";"), 12}});
  CHECK(found == expected);
}

TEST_CASE("filling in: Mistral's order") {
  TokenizerSpec spec = spec_of("llama-spm.gguf");
  spec.tokens[10] = "[PREFIX]";
  spec.tokens[11] = "[SUFFIX]";
  spec.types[10] = spec.types[11] = TokenType::control;
  const auto tokenizer = Tokenizer::create(spec).value();
  const Ids found = infill_tokens(*tokenizer, {"int x", "b", {}}, 1000).value();
  CHECK(found == joined({{tokenizer->bos(), 11, tokenizer->token_to_id("b"), 10},
                         ids_of(*tokenizer, "int x")}));
}

TEST_CASE("filling in: a vocabulary without tokens for it") {
  const auto tokenizer = open_known("llama-bpe.gguf");
  CHECK(infill_tokens(*tokenizer, {"a", "b", {}}, 1000).error().code() == StatusCode::unsupported);
}
