// What the tests of the window's text share: a font without a font, and hostile texts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gui/text/layout.h"
#include "gui/text/utf8.h"

namespace infer::test {

/// Every character is 10 wide, wide ones 20, code 8; headings twice as large. A line of the body is
/// 16 high.
class FakeMeasure : public gui::Measure {
 public:
  float advance(gui::Face face, char32_t code) const override {
    const float width = face == gui::Face::code ? 8.0f : is_large(face) ? 20.0f : 10.0f;
    return width * static_cast<float>(gui::columns_of(code));
  }
  float ascent(gui::Face face) const override { return is_large(face) ? 24 : 12; }
  float descent(gui::Face face) const override { return is_large(face) ? 8 : 4; }

 private:
  static bool is_large(gui::Face face) { return face >= gui::Face::heading1; }
};

inline std::string repeated(std::string_view unit, size_t count) {
  std::string text;
  text.reserve(unit.size() * count);
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}

struct NamedText {
  std::string name, text;
};

/// Texts that break programs, each about `bytes` long.
inline std::vector<NamedText> hostile_texts(size_t bytes) {
  std::vector<NamedText> texts;
  const auto add = [&](const char* name, std::string_view unit, std::string_view end = "") {
    texts.push_back({name, repeated(unit, bytes / unit.size()) + std::string(end)});
  };
  add("one line", "a");
  add("one line of words", "word ");
  add("fences", "```\n");
  add("fences with names", "```python\nx\n```\n\n");
  add("quotes in a line", ">");
  add("quotes with blanks", "> ");
  add("items in a line", "- ");
  add("numbers in a line", "1. ");
  add("brackets", "[");
  add("brackets closed", "[", "](x)");
  add("images in images", "![");
  add("links", "[a](");
  add("stars", "*");
  add("stars and words", "*a ");
  add("stars and scores", "*_a ");
  add("tildes", "~");
  add("tildes in words", "~~a ");
  add("backticks", "`");
  add("backticks of growing length", "`a``b```c````d");
  add("tags", "<a ");
  add("comments", "<!--");
  add("instructions", "<?");
  add("declarations", "<!A ");
  add("entities", "&#x202e;");
  add("unclosed entities", "&");
  add("addresses", "www.");
  add("addresses with brackets", "http://a(");
  add("mail", "a@");
  add("schemes", "http://");
  add("closing brackets", ")", "");
  add("address and closing brackets", "www.a.b))))))))))");
  add("pipes", "|");
  add("rows", "|a|b|\n");
  add("dollars", "$");
  add("formulas without end", "\\(\n");
  add("formulas", "$x_1$ ");
  add("empty lines", "\n");
  add("headings", "# a\n");
  add("setext", "a\n=\n");
  add("definitions", "[a]: b\n");
  add("uses of a definition", "[a]\n", "\n\n[a]: " + repeated("b", 1000) + "\n");
  add("marks on one letter", "\xCC\x81");
  add("joined emoji", "\xF0\x9F\x91\xA9\xE2\x80\x8D");
  add("direction overrides", "\xE2\x80\xAE");
  add("not UTF-8", "\xFF");
  add("tabs", "\t");
  add("control characters", "\x1B[31m");
  add("right to left", "\xD7\x90 a ");
  add("wide", "\xE4\xB8\xAD");
  add("underscores in words", "a_");
  add("escapes", "\\");
  texts.push_back({"a table of a thousand columns", "|" + repeated("a|", 1000) + "\n|" +
                                                        repeated("-|", 1000) + "\n" +
                                                        repeated("|x|\n", bytes / 4)});
  texts.push_back({"a table of short rows", "|" + repeated("a|", 60) + "\n|" + repeated("-|", 60) +
                                                "\n" + repeated("x\n", bytes / 2)});
  texts.push_back({"rows of dashes below a line", "x\n" + repeated("|-|-|\n", bytes / 6)});
  add("tables that are none", "x\n|-|-|\n");
  add("tables of one row", "|x|\n|-|\n\n");
  std::string nested;
  for (size_t depth = 0; nested.size() < bytes; ++depth) nested += repeated("  ", depth) + "- a\n";
  texts.push_back({"a staircase of lists", std::move(nested)});
  return texts;
}

}  // namespace infer::test
