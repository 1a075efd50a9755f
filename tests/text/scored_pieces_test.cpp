// PLaMo's tokenizer: against every way there is to take short texts apart, and its edges by hand.
#include <doctest.h>

#include <cmath>
#include <random>

#include "engine/text/unicode.h"
#include "tests/text/tiny_vocab.h"

using namespace infer;
using namespace infer::test;
using Ids = std::vector<int32_t>;

namespace {

constexpr double kBytesCost = 1000;  // in the unit of scores

TokenizerSpec plamo_spec() {
  TokenizerSpec spec;
  spec.source = "tiny.gguf";
  spec.model = "plamo2";
  spec.unknown = add_token(spec, "<|plamo:unk|>", TokenType::unknown);
  spec.bos = add_token(spec, "<|plamo:bos|>", TokenType::control);
  for (int byte = 0; byte < 256; ++byte) add_token(spec, byte_token(byte), TokenType::byte);
  return spec;
}
int32_t byte_id(int byte) { return 2 + byte; }

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {false}) {
  return tokenizer.encode(text, options).value();
}

/// The score of the best way, by trying them all.
double best_score(const TokenizerSpec& spec, std::string_view text) {
  if (text.empty()) return 0;
  const size_t size = decode_utf8(text, 0).size;
  double best = best_score(spec, text.substr(size)) - kBytesCost;
  for (size_t i = 258; i < spec.tokens.size(); ++i) {
    if (!text.starts_with(spec.tokens[i])) continue;
    best = std::max(best, spec.scores[i] + best_score(spec, text.substr(spec.tokens[i].size())));
  }
  return best;
}

double score_of(const TokenizerSpec& spec, const Ids& ids) {
  double score = 0;
  for (const int32_t id : ids) {
    const auto i = static_cast<size_t>(id);
    if (i >= 258) score += spec.scores[i];
    // The first byte of a character pays for all.
    if (i < 258 && (i - 2 < 0x80 || i - 2 >= 0xc0)) score -= kBytesCost;
  }
  return score;
}

}  // namespace

TEST_CASE("PLaMo: the sum of scores is the best there is, and texts come back") {
  std::mt19937 random(5);
  const std::vector<std::string> alphabet = {"a", "b", "é", "日", "😀"};
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t n = 1 + random() % most; n > 0; --n) text += alphabet[random() % alphabet.size()];
    return text;
  };
  for (int round = 0; round < 40; ++round) {
    TokenizerSpec spec = plamo_spec();
    for (int i = 0; i < 12; ++i) {
      const std::string token = word(3);
      if (std::ranges::count(spec.tokens, token) > 0) continue;
      add_token(spec, token, TokenType::normal, -static_cast<float>(random() % 64) / 4);
    }
    const auto tokenizer = make_tokenizer(spec);
    for (int i = 0; i < 20; ++i) {
      const std::string text = word(8);
      const Ids ids = encode(*tokenizer, text);
      CHECK(score_of(spec, ids) == best_score(spec, text));
      CHECK(tokenizer->decode(ids) == text);
    }
  }
}

TEST_CASE("PLaMo: of equal ways the longest token from the left; spaces are spaces") {
  TokenizerSpec spec = plamo_spec();
  const int32_t a = add_token(spec, "a", TokenType::normal, -2);
  const int32_t ab = add_token(spec, "ab", TokenType::normal, -4);
  const int32_t b = add_token(spec, "b", TokenType::normal, -2);
  const int32_t ba = add_token(spec, "ba", TokenType::normal, -4);
  const int32_t space = add_token(spec, " ", TokenType::normal, -1);
  const int32_t never = add_token(spec, "aaaa", TokenType::normal, -2000);
  add_token(spec, "bbb", TokenType::unused, 0);
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "aba") == Ids{ab, a});
  CHECK(encode(*tokenizer, "bab") == Ids{ba, b});
  CHECK(encode(*tokenizer, " a ") == Ids{space, a, space});
  CHECK(encode(*tokenizer, "aaaa") == Ids{a, a, a, a});
  CHECK(never > 0);
  CHECK(encode(*tokenizer, "bbb") == Ids{b, b, b});
  CHECK(encode(*tokenizer, "").empty());
  CHECK(encode(*tokenizer, "aéa") == Ids{a, byte_id(0xc3), byte_id(0xa9), a});
  CHECK(encode(*tokenizer, "a\xe3") == Ids{a, byte_id(0xe3)});
  // What does not ask for control tokens does not get them.
  CHECK(encode(*tokenizer, "<|plamo:bos|>", {false, true}) == Ids{1});
  CHECK(encode(*tokenizer, "<|plamo:bos|>").size() > 1);
  CHECK(encode(*tokenizer, "a", {true, false}) == Ids{a});
}

TEST_CASE("PLaMo: runs of equal characters stand apart from a length on") {
  TokenizerSpec spec = plamo_spec();
  const int32_t x = add_token(spec, "x", TokenType::normal, -5);
  const int32_t dashes = add_token(spec, "--", TokenType::normal, -5);
  const int32_t dash = add_token(spec, "-", TokenType::normal, -5);
  const int32_t x_dash = add_token(spec, "x-", TokenType::normal, -1);
  const int32_t space_x = add_token(spec, " x", TokenType::normal, -1);
  const int32_t space = add_token(spec, " ", TokenType::normal, -5);
  const int32_t line = add_token(spec, "\n", TokenType::normal, -5);
  const int32_t line_x = add_token(spec, "\nx", TokenType::normal, -1);
  CHECK(encode(*make_tokenizer(spec), "x---") == Ids{x_dash, dashes});
  spec.cut_repeats = 3;
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "x---") == Ids{x, dashes, dash});
  CHECK(encode(*tokenizer, "x--") == Ids{x_dash, dash});
  CHECK(encode(*tokenizer, "  x") == Ids{space, space_x});
  CHECK(encode(*tokenizer, "\n\n\nx") == Ids{line, line, line_x});
  spec.cut_spaces = 2;
  CHECK(encode(*make_tokenizer(spec), "  x") == Ids{space, space, x});
  CHECK(encode(*make_tokenizer(spec), " x") == Ids{space_x});
}

TEST_CASE("PLaMo: vocabularies that contradict themselves are refused") {
  const auto refused = [](TokenizerSpec spec, const char* why) {
    const auto result = Tokenizer::create(std::move(spec));
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == StatusCode::bad_file);
    CHECK(result.error().message().find(why) != std::string::npos);
  };
  TokenizerSpec spec = plamo_spec();
  spec.scores.clear();
  refused(spec, "scores is missing");
  spec = plamo_spec();
  spec.scores[5] = NAN;
  refused(spec, "scores[5]");
  spec = plamo_spec();
  spec.tokens[static_cast<size_t>(byte_id(0x1f))] = "other";
  refused(spec, "<0x1F>");
}

TEST_CASE("PLaMo: bytes of any kind come back, and long texts take linear time") {
  TokenizerSpec spec = plamo_spec();
  for (const char* token : {"a", "aa", "aaaaaaaa", "日", "日日", " a", "\xe3"}) {
    add_token(spec, token, TokenType::normal, -3);
  }
  spec.cut_repeats = 20;
  const auto tokenizer = make_tokenizer(spec);
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n) {
      text += random() % 3 == 0 ? static_cast<char>(random()) : 'a';
    }
    CHECK(tokenizer->decode(encode(*tokenizer, text)) == text);
  }
  const std::string text(1 << 20, 'a');
  CHECK(encode(*tokenizer, text).size() == text.size() / 8);
}
