// Colours of source code.
#include "gui/text/highlight.h"

#include <doctest.h>

#include <string>

#include "tests/gui/text_support.h"

using namespace infer::gui;

namespace {

/// The pieces of `code` that are `token`, over all lines.
std::vector<std::string> pieces(std::string_view language, std::string_view code, Token token) {
  const Highlighter highlighter(language);
  REQUIRE(highlighter.knows_language());
  std::vector<std::string> found;
  std::vector<TokenSpan> spans;
  HighlightState state;
  while (true) {
    const std::string_view line = code.substr(0, code.find('\n'));
    state = highlighter.line(line, state, spans);
    size_t at = 0;
    for (const TokenSpan& span : spans) {
      REQUIRE_EQ(span.begin, at);
      at = span.end;
      if (span.token == token) found.emplace_back(line.substr(span.begin, span.end - span.begin));
    }
    REQUIRE_EQ(at, line.size());
    if (line.size() == code.size()) return found;
    code.remove_prefix(line.size() + 1);
  }
}

using Parts = std::vector<std::string>;

}  // namespace

TEST_CASE("the languages that people ask for are known") {
  for (const char* name :
       {"c",    "cpp",        "C++",      "Python",     "py",       "js",     "javascript",
        "ts",   "typescript", "rust",     "go",         "java",     "csharp", "c#",
        "bash", "sh",         "shell",    "sql",        "json",     "yaml",   "html",
        "xml",  "css",        "markdown", "diff",       "toml",     "kotlin", "swift",
        "ruby", "php",        "lua",      "dockerfile", "makefile", "cmake"}) {
    CAPTURE(name);
    CHECK(find_language(name) != nullptr);
  }
  CHECK(find_language("") == nullptr);
  CHECK(find_language("brainfog") == nullptr);
  CHECK(find_language("c cpp") == nullptr);
}

TEST_CASE("C++") {
  const char* code =
      "#include <a>\nint f(char c) { // note\n  return \"a\\\"b\" + 0x1F; /* x\ny */ }";
  CHECK_EQ(pieces("cpp", code, Token::keyword), Parts{"return"});
  CHECK_EQ(pieces("cpp", code, Token::type), Parts{"int", "char"});
  CHECK_EQ(pieces("cpp", code, Token::string), Parts{"\"a\\\"b\""});
  CHECK_EQ(pieces("cpp", code, Token::comment), Parts{"// note", "/* x", "y */"});
  CHECK_EQ(pieces("cpp", code, Token::number), Parts{"0x1F"});
  CHECK_EQ(pieces("cpp", code, Token::meta), Parts{"#include"});
  CHECK_EQ(pieces("cpp", code, Token::function), Parts{"f"});
}

TEST_CASE("strings over several lines") {
  CHECK_EQ(pieces("python", "a = \"\"\"x\ny # z\n\"\"\" # w", Token::string),
           Parts{"\"\"\"x", "y # z", "\"\"\""});
  CHECK_EQ(pieces("python", "a = \"\"\"x\ny\n\"\"\" # w", Token::comment), Parts{"# w"});
  CHECK_EQ(pieces("js", "x = `a\n${b}` + 'c'", Token::string), Parts{"`a", "${b}`", "'c'"});
}

TEST_CASE("marks of other languages") {
  CHECK_EQ(pieces("rust", "fn f<'a>(x: &'a str) { 'b' } /* a /* b */ c */", Token::comment),
           Parts{"/* a /* b */ c */"});
  CHECK_EQ(pieces("rust", "let c = 'x'; let d = '\\u{10FFFF}';", Token::string),
           Parts{"'x'", "'\\u{10FFFF}'"});
  CHECK_EQ(pieces("rust", "fn f<'a>(x: &'a str)", Token::meta), Parts{"'a", "'a"});
  CHECK_EQ(pieces("json", "{\"a\": \"b\", \"c\": true}", Token::key), Parts{"\"a\"", "\"c\""});
  CHECK_EQ(pieces("json", "{\"a\": \"b\"}", Token::string), Parts{"\"b\""});
  CHECK_EQ(pieces("yaml", "key-one: value # c", Token::key), Parts{"key-one"});
  CHECK_EQ(pieces("sql", "SELECT a FROM b WHERE c = 'it''s'", Token::keyword),
           Parts{"SELECT", "FROM", "WHERE"});
  CHECK_EQ(pieces("bash", "echo $HOME ${x} a#b # c", Token::comment), Parts{"# c"});
  CHECK_EQ(pieces("bash", "echo $HOME ${x}", Token::meta), Parts{"$HOME", "${x}"});
  CHECK_EQ(pieces("html", "<a href=\"x\">y</a><!-- z -->", Token::keyword),
           Parts{"<a", ">", "</a>"});
  CHECK_EQ(pieces("html", "<a href=\"x\">y</a>", Token::key), Parts{"href"});
  CHECK_EQ(pieces("diff", "+a\n-b\n c\n@@ 1 @@", Token::added), Parts{"+a"});
  CHECK_EQ(pieces("diff", "+a\n-b\n c\n@@ 1 @@", Token::removed), Parts{"-b"});
  CHECK_EQ(pieces("css", "a { background: url(http://x) }", Token::comment), Parts{});
}

TEST_CASE("every language covers every line") {
  for (const Language& language : languages()) {
    const std::string_view name = language.names.substr(0, language.names.find(' '));
    for (const auto& [text_name, text] : infer::test::hostile_texts(2048)) {
      CAPTURE(name);
      CAPTURE(text_name);
      pieces(name, text, Token::plain);
    }
    pieces(name, "\"'`<!--/*{-#=\n*/'\\", Token::plain);
  }
}
