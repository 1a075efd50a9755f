#include "engine/text/stream_decoder.h"

#include <doctest.h>

#include <random>

#include "engine/text/unicode.h"
#include "tests/text/tiny_vocab.h"

using namespace infer;
using namespace infer::test;

namespace {

bool is_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = decode_utf8(text, pos);
    if (!c.valid) return false;
    pos += c.size;
  }
  return true;
}

constexpr std::string_view kBad = "\xef\xbf\xbd";

}  // namespace

TEST_CASE("bytes that are not UTF-8: one replacement for each maximal part of a character") {
  const std::string bad(kBad);
  CHECK(to_valid_utf8("aé€😀") == "aé€😀");
  CHECK(to_valid_utf8("\xff\xfe") == bad + bad);
  CHECK(to_valid_utf8("\xe2\x82 x") == bad + " x");
  CHECK(to_valid_utf8("\xf0\x9f\x98") == bad);
  CHECK(to_valid_utf8("\xf0\x9f\x98\xe2\x82\xac") == bad + "€");
  CHECK(to_valid_utf8("\xc0\xaf") == bad + bad);            // overlong
  CHECK(to_valid_utf8("\xed\xa0\x80") == bad + bad + bad);  // surrogate
  CHECK(to_valid_utf8("\xf4\x90\x80\x80") == bad + bad + bad + bad);
  CHECK(to_valid_utf8("\xe0\x80") == bad + bad);
}

TEST_CASE("characters cut anywhere come out whole") {
  const auto tokenizer = make_tokenizer(byte_bpe_spec({{"a", "b"}}));
  const std::string text = "aé€😀\u0301\U0010ffff!";
  StreamDecoder decoder(*tokenizer);
  std::string out;
  for (const char c : text) {
    const std::string part = decoder.push(static_cast<uint8_t>(c));
    CHECK(is_utf8(part));
    CHECK(part.find(kBad) == std::string::npos);
    out += part;
  }
  CHECK(decoder.finish().empty());
  CHECK(out == text);

  // A text that ends inside a character.
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    StreamDecoder part(*tokenizer);
    std::string streamed;
    for (const char c : text.substr(0, cut)) streamed += part.push(static_cast<uint8_t>(c));
    streamed += part.finish();
    CHECK(streamed == to_valid_utf8(text.substr(0, cut)));
  }
}

TEST_CASE("any bytes: the stream equals the whole, and holds back at most three bytes") {
  const auto tokenizer = make_tokenizer(byte_bpe_spec({{"a", "b"}}));
  std::mt19937 random(11);
  constexpr uint8_t kLikely[] = {0x80, 0xbf, 0xc2, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0x90, 0x8f, 'a'};
  for (int round = 0; round < 3000; ++round) {
    StreamDecoder decoder(*tokenizer);
    std::string bytes;
    std::string out;
    for (size_t i = random() % 12; i > 0; --i) {
      const uint8_t byte = random() % 5 == 0 ? static_cast<uint8_t>(random())
                                             : kLikely[random() % std::size(kLikely)];
      bytes += static_cast<char>(byte);
      const std::string part = decoder.push(byte);
      CHECK(is_utf8(part));
      out += part;
    }
    const std::string rest = decoder.finish();
    CHECK(rest.size() <= kBad.size());
    CHECK(out + rest == to_valid_utf8(bytes));
  }
}

TEST_CASE("the tokenizer's own space is taken off at the start of a text only") {
  TokenizerSpec spec = sentencepiece_spec();
  const int32_t hello = add_token(spec, "▁hello", TokenType::normal, -1);
  const int32_t mark = add_token(spec, "▁", TokenType::normal, -1);
  const auto tokenizer = make_tokenizer(spec);
  const auto stream = [&](std::vector<int32_t> ids, StreamOptions options) {
    StreamDecoder decoder(*tokenizer, options);
    std::string text;
    for (const int32_t id : ids) text += decoder.push(id);
    return text + decoder.finish();
  };
  CHECK(stream({hello, hello}, {.at_start = true}) == "hello hello");
  CHECK(stream({hello, hello}, {.at_start = false}) == " hello hello");
  CHECK(stream({1, hello}, {.at_start = true}) == "hello");
  CHECK(stream({mark, hello}, {.at_start = true}) == " hello");
  CHECK(stream({1, hello, 2}, {.render_special = true}) == "<s>hello</s>");
  spec.add_space_prefix = 0;
  const auto plain = make_tokenizer(spec);
  StreamDecoder decoder(*plain, {.at_start = true});
  CHECK(decoder.push(hello) == " hello");
}
