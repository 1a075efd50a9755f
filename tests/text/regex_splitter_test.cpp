// Expressions of pre-tokenizers that run through PCRE2.
#include "engine/text/regex_splitter.h"

#include <doctest.h>

#include "engine/text/pretokenizer.h"
#include "tests/hostile.h"

using namespace infer;

namespace {

using Words = std::vector<std::string>;

Words words(const std::vector<SplitRule>& rules, std::string_view text) {
  const auto splitter = RegexSplitter::create(rules, "t.json");
  REQUIRE_MESSAGE(splitter, splitter.error().message());
  const auto found = splitter->split(text);
  REQUIRE_MESSAGE(found, found.error().message());
  Words out;
  for (const auto [begin, end] : *found) {
    out.emplace_back(text.substr(begin, end - begin));
  }
  return out;
}

Words words(const std::string& pattern, SplitBehaviour behaviour, std::string_view text) {
  return words({{pattern, behaviour}}, text);
}

void refused(const std::string& pattern) {
  const auto splitter = RegexSplitter::create({{pattern}}, "t.json");
  CAPTURE(pattern);
  REQUIRE_FALSE(splitter);
  CHECK(splitter.error().code() == StatusCode::unsupported);
  CHECK(splitter.error().message().starts_with("t.json: the pattern '"));
}

}  // namespace

TEST_CASE("what becomes of matches and of what lies between them") {
  // The example of the documentation of tokenizers.
  constexpr std::string_view kText = "the-final--countdown";
  CHECK(words("-", SplitBehaviour::isolated, kText) ==
        Words{"the", "-", "final", "-", "-", "countdown"});
  CHECK(words("-", SplitBehaviour::previous, kText) == Words{"the-", "final-", "-", "countdown"});
  CHECK(words("-", SplitBehaviour::next, kText) == Words{"the", "-final", "-", "-countdown"});
  CHECK(words("-", SplitBehaviour::contiguous, kText) ==
        Words{"the", "-", "final", "--", "countdown"});
  CHECK(words("[a-z]+", SplitBehaviour::matches, kText) == Words{"the", "final", "countdown"});
  CHECK(words({{"-"}, {"[aeiou]"}}, "a-bob") == Words{"a", "-", "b", "o", "b"});
  CHECK(words(std::vector<SplitRule>(), "all of it") == Words{"all of it"});
  CHECK(words("x", SplitBehaviour::isolated, "").empty());
}

TEST_CASE("expressions mean what they do in Oniguruma") {
  CHECK(words("\\p{N}{1,2}+", SplitBehaviour::isolated, "12345a") == Words{"12345", "a"});
  CHECK(words("(a|bc){2}+", SplitBehaviour::isolated, "abcaax") == Words{"abcaa", "x"});
  CHECK(words("\\h+", SplitBehaviour::isolated, "ffg") == Words{"ff", "g"});
  CHECK(words("[\\u0041-\\u0043]+", SplitBehaviour::isolated, "ABCD") == Words{"ABC", "D"});
  // A Mongolian vowel separator is no white space.
  CHECK(words("\\s", SplitBehaviour::isolated, "a\u180eb") == Words{"a\u180eb"});
  CHECK(words("\\S+", SplitBehaviour::matches, "a\u3000b") == Words{"a", "b"});
  CHECK(words("\\w+", SplitBehaviour::isolated, "e\u0301-") == Words{"e\u0301", "-"});
  CHECK(words("^a", SplitBehaviour::isolated, "ba\na") == Words{"ba\n", "a"});
  // A list within a list adds to it; of a negated one, to what is left out.
  CHECK(words("[a[bc]d]+", SplitBehaviour::matches, "xabcdex") == Words{"abcd"});
  CHECK(words("[^(\\s|[.,\u2026])]+", SplitBehaviour::matches, "ab c|d.e\u2026f") ==
        Words{"ab", "c", "d", "e", "f"});
  for (const char* pattern :
       {"[a&&b]",         "[a[^b]]", "[a[b[c]]]", "[a[b&&c]]", "[a[-b]]", "[a[b-]]", "[a[b",
        "[a[[:alpha:]]]", "[]a]",    "(",         "\\",        "(?R)",    "(?m)a",   "(?C1)",
        "\\Ga",           "\\Ca",    "(*ACCEPT)", "\\p{Nope}", "(a*)\\1", "\\X",     "a)"}) {
    refused(pattern);
  }
  refused(std::string(20'000, 'a'));
  CHECK_FALSE(RegexSplitter::create(std::vector<SplitRule>(65, {"a"}), "t.json"));
  refused(std::string(200, '(') + std::string(200, ')'));
}

TEST_CASE("what is not UTF-8 is no part of a match") {
  CHECK(words("[^b]+", SplitBehaviour::isolated,
              "a\xff\xfe"
              "ab\xe2\x82") == Words{"a", "\xff\xfe", "a", "b", "\xe2\x82"});
}

/// Cutting `text` fails because the pattern takes too long.
void too_long(const std::string& pattern, const std::string& text) {
  CAPTURE(pattern);
  const auto splitter = RegexSplitter::create({{pattern}}, "t.json");
  REQUIRE_MESSAGE(splitter, splitter.error().message());
  const auto words = splitter->split(text);
  REQUIRE_FALSE(words);
  CHECK(words.error().code() == StatusCode::unsupported);
  CHECK(words.error().message().starts_with("t.json: the pattern '"));
  CHECK(words.error().message().ends_with("' of its pre_tokenizer takes too long for this text"));
}

TEST_CASE("work beyond a limit for the text is an error") {
  // Steps of one attempt.
  too_long("(a|a)*(a|a)*(a|a)*b", std::string(3000, 'a') + "cb");
  // What repetitions run over at each place, ahead and in the match itself.
  const std::string run(100'000, 'a');
  for (const char* pattern :
       {"(?!a*b)a", "(?!a*b)[ac]", "a*b|a", "a+?b|a", "(?>a*)b|a", "a{3,}+b|a", "[^b]*b|a",
        "\\p{L}+\\s|a", ".*b|a", "(?i:a*)b|a", "(?:é|a*)b|a"}) {
    too_long(pattern, run);
  }
  // Literal characters, and rounds of groups.
  too_long(std::string(10'000, 'a') + "b|a", run);
  too_long("(?:){1000}a", run);
  too_long("(?:a?){1000}b|a", run);
}

TEST_CASE("a place may take many steps") {
  const std::string text = std::string(3000, 'a') + 'c';
  CHECK(words("(a|b)+", SplitBehaviour::isolated, text) == Words{std::string(3000, 'a'), "c"});
  // Where no match begins although it took many steps, one may begin further on.
  CHECK(words("(a|b)+d|c", SplitBehaviour::isolated, std::string(300, 'a') + "c") ==
        Words{std::string(300, 'a'), "c"});
}

TEST_CASE("repetitions of characters of several bytes") {
  CHECK(words("é+", SplitBehaviour::isolated, "ééa") == Words{"éé", "a"});
  CHECK(words("é{2}+", SplitBehaviour::isolated, "ééééa") == Words{"éééé", "a"});
  CHECK(words("a{1,2}?", SplitBehaviour::isolated, "aa") == Words{"a", "a"});
  CHECK(words("a{", SplitBehaviour::isolated, "a{a") == Words{"a{", "a"});
  CHECK(words("[+*]+", SplitBehaviour::isolated, "+*a") == Words{"+*", "a"});
}

TEST_CASE("hostile patterns end soon and in little memory") {
  const std::vector<test::Hostile> all = test::read_hostile("patterns.json", "pattern", "text", 30);
  for (const test::Hostile& hostile : all) {
    test::check_bounded(hostile, [&] {
      const auto splitter = RegexSplitter::create({{hostile.source}}, "t.json");
      if (!splitter) return;
      const auto words = splitter->split(hostile.input);
      CAPTURE(hostile.name);
      if (words) CHECK(words->back().end == hostile.input.size());
    });
  }
}

TEST_CASE("rules are known by their name") {
  constexpr const char* kQwen2 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
      "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  CHECK(find_name({{{kQwen2}}}) == "qwen2");
  CHECK(find_name({{{kQwen2, SplitBehaviour::matches}}}) == "qwen2");
  CHECK(find_name({{{kQwen2, SplitBehaviour::next}}}).empty());
  CHECK(find_name({{{kQwen2}}, false, true}).empty());
  CHECK(find_name({{{"[\r\n]"},
                    {"\\s?\\p{L}+"},
                    {"\\s?\\p{P}+"},
                    {"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
                    {"\\p{N}"}}}) == "deepseek-coder");
  // As BLOOM's file has it.
  CHECK(find_name({{{" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"}}}) == "bloom");
  CHECK(find_name({}).empty());
  // Every name's own patterns are known, if not always by that name.
  for (const NamedPreTokenizer& entry : all_pretokenizers()) {
    if (entry.rules->raw_utf8) continue;
    WordRules rules;
    for (const SplitStage& stage : entry.rules->stages) rules.steps.push_back({stage.pattern});
    rules.ignore_merges = entry.rules->ignore_merges;
    const PreTokenizer* found = find_pretokenizer(find_name(rules));
    CAPTURE(entry.name);
    REQUIRE_FALSE(find_name(rules).empty());
    CHECK(found->ignore_merges == rules.ignore_merges);
    CHECK(found->stages.size() == rules.steps.size());
  }
}
