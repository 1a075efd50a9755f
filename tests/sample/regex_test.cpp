// Patterns: which strings they match, by a table.
#include <doctest.h>

#include <string>
#include <vector>

#include "engine/sample/grammar/regex.h"

using namespace infer;

namespace {

struct Row {
  std::string pattern;
  std::vector<std::string> yes, no;
};

const Row kRows[] = {
    {"", {"", "x"}, {}},
    {"^$", {""}, {"x"}},
    {"b", {"b", "abc"}, {"", "ac"}},
    {"^b", {"b", "bc"}, {"ab"}},
    {"b$", {"b", "ab"}, {"ba"}},
    {"^a|b$", {"ax", "xb", "a", "b"}, {"xa", "bx"}},
    {"^(a|^b|c$)d?$", {"a", "ad", "b", "bd", "c"}, {"cd", "d"}},
    {"a^b", {}, {"ab", "a^b"}},
    {"$a", {}, {"a"}},
    {"^a{2,3}$", {"aa", "aaa"}, {"a", "aaaa"}},
    {"^a{2,}?b+?$", {"aab", "aaaabb"}, {"ab"}},
    {"^(?:ab)*(?<name>c)$", {"c", "ababc"}, {"abab"}},
    {"^[a-c\\d_-]+$", {"abc", "9-_"}, {"d", ""}},
    {"^[^a-c]$", {"d", "\xc3\xa9", "\n"}, {"a", "dd"}},
    {"^[\\]\\\\]$", {"]", "\\"}, {"a"}},
    {"^[]$", {}, {"", "]"}},
    {"^[^]$", {"a", "\n"}, {""}},
    {"^.$", {"a", "\xf0\x9f\x98\x80"}, {"\n", "", "ab"}},
    {"^\\d\\D\\w\\W\\s\\S$", {"1aa! x"}, {"aaa! x", "1aaa x"}},
    {"^\\W$", {"!", " "}, {"a", "\xc3\xa9"}},
    {"^\\u00e9\\x41\\u{1F600}\\ud83d\\ude00\\t\\cJ\\0$",
     {std::string("\xc3\xa9") + "A\xf0\x9f\x98\x80\xf0\x9f\x98\x80\t\n" + std::string(1, '\0')},
     {"A"}},
    {"^\\p{Lu}\\p{L}\\P{L}$",
     {"\xc3\x89"
      "e1"},
     {"eE1", "EE"}},
    {"^\\$\\^\\.\\*\\/\\-$", {"$^.*/-"}, {""}},
    {"^a{,2}$", {"a{,2}"}, {"a"}},
    {"^x{$", {"x{"}, {"x"}},
    {"(a|ab)(c|bcd)$", {"abcd", "ac", "xabc"}, {"ab"}},
};

}  // namespace

TEST_CASE("patterns match their strings and no others") {
  for (const Row& row : kRows) {
    CAPTURE(row.pattern);
    CharWork work;
    const auto dfa = compile_regex(row.pattern, work);
    REQUIRE_MESSAGE(dfa, (dfa ? std::string() : dfa.error().message()));
    const CharDfa complement = dfa->complement();
    for (const std::string& text : row.yes) {
      CAPTURE(text);
      CHECK(dfa->matches(text));
      CHECK_FALSE(complement.matches(text));
    }
    for (const std::string& text : row.no) {
      CAPTURE(text);
      CHECK_FALSE(dfa->matches(text));
      CHECK(complement.matches(text));
    }
    CHECK(dfa->intersected(complement, work)->empty());
    CHECK(dfa->united(complement, work)->complement().empty());
  }
}

TEST_CASE("patterns that are none or not regular are refused") {
  for (const char* bad : {"(", ")", "a)", "[a", "*", "a**", "+a", "a{2,1}", "\\", "\\q", "[z-a]",
                          "\\x4", "\\ud83d", "(?a)", "[\\d-z]", "\\p", "{2}"}) {
    CAPTURE(bad);
    CharWork work;
    const auto dfa = compile_regex(bad, work);
    REQUIRE(!dfa);
    CHECK(dfa.error().code() == StatusCode::invalid_argument);
  }
  for (const char* hard : {"(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "\\bx", "(a)\\1", "(?<n>a)\\k<n>",
                           "a{6000}", "\\p{Script=Greek}", "(a|b)*a(a|b){20}$"}) {
    CAPTURE(hard);
    CharWork work;
    const auto dfa = compile_regex(hard, work);
    REQUIRE(!dfa);
    CHECK(dfa.error().code() == StatusCode::unsupported);
  }
}
