// Any bytes become text that can be shown.
#include "gui/text/sanitise.h"

#include <doctest.h>

#include <random>

#include "gui/text/utf8.h"
#include "tests/gui/text_support.h"

using namespace infer::gui;

namespace {

constexpr const char* kUnknown = "\xEF\xBF\xBD";

/// Valid UTF-8 without control characters but '\n' and tab, and without directions.
bool is_safe(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    std::string again;
    append_utf8(again, c.code);
    if (text.substr(at, c.length) != again) return false;
    if (c.code < 0x20 && c.code != '\n' && c.code != '\t') return false;
    if (c.code >= 0x7F && c.code < 0xA0) return false;
    if (c.code >= 0x202A && c.code <= 0x202E) return false;
    if (c.code >= 0x2066 && c.code <= 0x2069) return false;
    if (c.code >= 0xE0000 && c.code <= 0xE007F) return false;
    at += c.length;
  }
  return true;
}

}  // namespace

TEST_CASE("text that is fine stays") {
  const std::string text = "Grüße, 中文, שלום, 👩‍👩‍👧 e\u0301\n\tx";
  CHECK_EQ(sanitise(text), text);
}

TEST_CASE("control characters leave a visible sign") {
  CHECK_EQ(sanitise(std::string_view("a\0b", 3)), "a\u2400b");
  CHECK_EQ(sanitise("\x1B[31mred"), "\u241B[31mred");
  CHECK_EQ(sanitise("\x7F"), "\u2421");
  CHECK_EQ(sanitise("a\u202Eb\u2066c"), std::string("a") + kUnknown + "b" + kUnknown + "c");
  CHECK_EQ(sanitise("\U000E0041"), kUnknown);
  CHECK_EQ(sanitise("a\u200Eb\u00ADc\uFEFF"), "abc");
}

TEST_CASE("line ends become one") {
  CHECK_EQ(sanitise("a\r\nb\rc\u2028d\n\ne"), "a\nb\nc\nd\n\ne");
  Sanitiser cut;
  std::string out;
  cut.append("a\r", out);
  cut.append("\nb", out);
  CHECK_EQ(out, "a\nb");
}

TEST_CASE("bytes that are not UTF-8") {
  CHECK_EQ(sanitise("a\xFF"), std::string("a") + kUnknown);
  CHECK_EQ(sanitise("\xC3(").size(), 4);                               // one sign and the bracket
  CHECK_EQ(sanitise("\xED\xA0\x80").find("\xED"), std::string::npos);  // a surrogate
  CHECK_EQ(sanitise("\xF4\x90\x80\x80").find("\xF4"), std::string::npos);
  CHECK_EQ(sanitise("\xC0\x80").find("\xC0"), std::string::npos);
  CHECK_EQ(sanitise("a\xE4\xB8"), std::string("a") + kUnknown);
}

TEST_CASE("a pile of marks is cut") {
  const std::string text = "e" + infer::test::repeated("\u0301", 1000) + "x";
  CHECK_EQ(sanitise(text), "e" + infer::test::repeated("\u0301", 8) + "x");
}

TEST_CASE("pieces give what the whole gives") {
  std::mt19937 random(7);
  const std::string parts[] = {
      "a",        "\r",     "\n",   "\xC3",   "\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80",
      "\xF0\x9F", "\u202E", "\x01", "\u0301", "\xFF"};
  for (int round = 0; round < 300; ++round) {
    std::string text, pieces;
    for (int i = 0; i < 20; ++i) text += parts[random() % std::size(parts)];
    Sanitiser sanitiser;
    for (size_t at = 0; at < text.size();) {
      const size_t count = 1 + random() % 3;
      sanitiser.append(std::string_view(text).substr(at, count), pieces);
      at += count;
    }
    sanitiser.finish(pieces);
    REQUIRE_EQ(pieces, sanitise(text));
    REQUIRE(is_safe(pieces));
  }
}

TEST_CASE("hostile bytes become safe text") {
  for (const auto& [name, text] : infer::test::hostile_texts(4096)) {
    CAPTURE(name);
    CHECK(is_safe(sanitise(text)));
  }
}

TEST_CASE("clusters and words") {
  const std::string text = "e\u0301x 👩‍👩‍👧!";
  CHECK_EQ(cluster_end(text, 0, text.size()), 3);
  CHECK_EQ(cluster_begin(text, 3), 0);
  const size_t family = text.find("\xF0");
  CHECK_EQ(cluster_end(text, family, text.size()), text.size() - 1);
  CHECK_EQ(cluster_begin(text, text.size() - 1), family);
  const TextRange word = word_at("one two_3, four", 5);
  CHECK_EQ(word.begin, 4);
  CHECK_EQ(word.end, 9);
  CHECK_EQ(word_at("a, b", 1).end, 2);
  CHECK_EQ(word_at("", 3).end, 0);
  // A hostile cluster is cut, so that no step takes long.
  const std::string joined = infer::test::repeated("👩‍", 100'000);
  CHECK(cluster_end(joined, 0, joined.size()) <= kMaxClusterBytes + 4);
}

TEST_CASE("a name is one short line") {
  CHECK_EQ(one_line("llama 3", 100), "llama 3");
  CHECK_EQ(one_line("", 100), "");
  CHECK_EQ(one_line("two\r\nlines\tand a tab", 100), "two lines and a tab");
  CHECK_EQ(one_line("12345678", 8), "12345678");
  CHECK_EQ(one_line("123456789", 8), "12345…");
  CHECK_EQ(one_line("ööööö", 8), "öö…");
  CHECK_EQ(one_line("a\xC3", 100), std::string("a") + kUnknown);
  const std::string hostile = one_line(std::string(1 << 20, '\x01') + "\xFF\n", 200);
  CHECK(hostile.size() <= 200);
  CHECK(is_safe(hostile));
  CHECK(one_line(infer::test::repeated("\u200f", 1 << 20) + "x", 50) == "…");
}
