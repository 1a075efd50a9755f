// GBNF: what each notation means, and that masks are what a plain recogniser says of every token.
#include "tests/sample/grammar_support.h"

using namespace infer;
using namespace infer::test;

namespace {

struct Row {
  std::string grammar;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {R"(root ::= "yes" | "no")", {"yes", "no"}, {"", "ye", "yesno", "YES"}},
      {R"(root ::= "a" "b"   "c" # comment)", {"abc"}, {"ab", "a b c"}},
      {"# first\n\nroot ::= a |\n  b\na ::= \"x\"\n\nb ::= (\n \"y\"\n | \"z\" # in a group\n)\n",
       {"x", "y", "z"},
       {"", "xy"}},
      {"root ::= \"a\"\n | \"b\"\n", {"a", "b"}, {"ab"}},
      {R"(root ::= "a"*)", {"", "a", "aaaa"}, {"b", "ab"}},
      {R"(root ::= "ab"+ "c"?)", {"ab", "abab", "ababc"}, {"", "c", "aab"}},
      {R"(root ::= ("a" | "bc"){2,3})", {"aa", "abc", "bcbca"}, {"a", "aaaa", "abcabca"}},
      {R"(root ::= "a"{3})", {"aaa"}, {"aa", "aaaa"}},
      {R"(root ::= "a"{2,})", {"aa", "aaaaaaa"}, {"a", ""}},
      {R"(root ::= "a"{0,2} "b")", {"b", "ab", "aab"}, {"aaab", "a"}},
      {R"(root ::= "a"{0} "b")", {"b"}, {"ab"}},
      {R"(root ::= [a-c0-9_-]+)", {"a-0_", "cab9"}, {"", "d", "A"}},
      {R"(root ::= [^a-c\n]+)", {"xyz", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"a", "\n", "xa"}},
      {R"(root ::= [^"\\] ".")", {"x.", "\xe2\x82\xac."}, {"\".", "\\.", "\xe2\x82."}},
      {R"(root ::= . "!")", {"a!", "\n!", "\xf4\x8f\xbf\xbf!"}, {"!", "\xff!", "\xed\xa0\x80!"}},
      {R"(root ::= "\x41\u00e9\U0001F600\t\n\r\\\"\[\]")",
       {"A\xc3\xa9\xf0\x9f\x98\x80\t\n\r\\\"[]"},
       {"A"}},
      {R"(root ::= [\x41-\u00e9\]\-])", {"A", "\xc3\xa9", "]", "-", "z"}, {"\xc3\xaa", "@"}},
      {R"(root ::= [a-zA-Z0-9]{64})",
       {std::string(64, 'q')},
       {std::string(63, 'q'), std::string(65, 'q')}},
      {R"(root ::= [a-z]{32,40} [a-z])",
       {std::string(33, 'q'), std::string(41, 'q')},
       {std::string(32, 'q'), std::string(42, 'q')}},
      {R"(root ::= [é-ü]{0,50} "!")", {"!", "\xc3\xa9!", "\xc3\xa9\xc3\xbc!"}, {"e!", "\xc3!"}},
      {R"(root ::= .{40,} "x")", {std::string(41, 'x')}, {std::string(40, 'x')}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())", ")("}},
      {"root ::= expr\nexpr ::= term ([-+] term)*\nterm ::= num | \"(\" expr \")\"\nnum ::= [0-9]+",
       {"1", "1+2", "(1-(2+33))+4"},
       {"", "1+", "(1", "1 + 2"}},
      {"root ::= item root | item\nitem ::= \"a\" | \"ab\"", {"a", "ab", "aab", "abab"}, {"", "b"}},
      {"root ::= x y\nx ::= \"a\"?\ny ::= x \"b\"?", {"", "a", "aa", "ab", "aab", "b"}, {"ba"}},
      {"root ::= (\"a\"*)* \"b\"", {"b", "aab"}, {"a"}},
      {"root ::= (\"\" | \"a\")+", {"", "aaa"}, {"b"}},
      {"root ::= \"a\" dead | \"b\"\ndead ::= \"x\" dead", {"b"}, {"ax", "a"}},
      // Deterministically this takes 2^12 states.
      {"root ::= (\"a\" [^>]{1,256} \">\")*", {"", "ab>", "abb>ab>"}, {"a>", "ab"}},
      {"root ::= [ab]* \"a\" [ab]{12}",
       {"abbbbbbbbbbbb", "aabbbbbbbbbbbb"},
       {"bbbbbbbbbbbbb", "a"}},
  };
  return kRows;
}

const SmallVocabulary& vocabulary() {
  static const SmallVocabulary kVocabulary({"yes", "no",       "aa",    "aaa",      "ab",    "abc",
                                            "bc",  "a\"",      "\":",   "()",       "((",    "))",
                                            "x.",  "\xc3\xa9", "\xa9!", "\xe2\x82", "\xac.", "qqqq",
                                            "12",  "1+",       "+(",    "aa",       "\n",    "]-"});
  return kVocabulary;
}

bool accepts(const std::shared_ptr<const CompiledGrammar>& grammar, const std::string& text) {
  const auto c = constraint(grammar, vocabulary().trie);
  for (const char byte : text) {
    const auto token = static_cast<int32_t>(static_cast<uint8_t>(byte));
    const bool allowed = c->allows(token);
    CHECK(c->accept(token) == allowed);
    if (!allowed) return false;
  }
  CHECK(c->allows(vocabulary().eog) == c->complete());
  return c->complete();
}

/// Holds the mask of a state against the recogniser, token by token.
void check_mask(Constraint& c, const CompiledGrammar& grammar, const std::string& text) {
  CAPTURE(text);
  const TokenMask mask = c.mask();
  const SmallVocabulary& v = vocabulary();
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    CAPTURE(v.pieces[i]);
    const bool expected = Recogniser(grammar, text + v.pieces[i]).prefix();
    CHECK(mask.test(token) == expected);
    CHECK(c.allows(token) == expected);
  }
  CHECK(mask.test(v.eog) == Recogniser(grammar, text).whole());
}

void refused(const std::string& text, StatusCode code, const std::string& part) {
  CAPTURE(text.substr(0, 200));
  const auto grammar = compile_gbnf(text);
  REQUIRE(!grammar);
  CHECK(grammar.error().code() == code);
  CHECK_MESSAGE(grammar.error().message().find(part) != std::string::npos,
                grammar.error().message());
}

}  // namespace

TEST_CASE("each notation accepts its texts and no others") {
  for (const Row& row : rows()) {
    CAPTURE(row.grammar);
    const auto grammar = gbnf(row.grammar);
    for (const std::string& text : row.yes) {
      CAPTURE(text);
      CHECK(accepts(grammar, text));
      CHECK(Recogniser(*grammar, text).whole());
    }
    for (const std::string& text : row.no) {
      CAPTURE(text);
      CHECK_FALSE(accepts(grammar, text));
      CHECK_FALSE(Recogniser(*grammar, text).whole());
    }
  }
}

TEST_CASE("masks are what a plain recogniser says of each token") {
  for (size_t r = 0; r < rows().size(); ++r) {
    CAPTURE(rows()[r].grammar);
    const auto grammar = gbnf(rows()[r].grammar);
    Random random(r);
    const auto c = constraint(grammar, vocabulary().trie);
    std::string text;
    for (int step = 0; step < 14; ++step) {
      check_mask(*c, *grammar, text);
      std::vector<int32_t> allowed = tokens_of(c->mask());
      REQUIRE(!allowed.empty());
      if (allowed.back() == vocabulary().eog) allowed.pop_back();
      if (allowed.empty()) break;
      const int32_t token = allowed[random.below(static_cast<uint32_t>(allowed.size()))];
      const auto copy = c->clone();
      REQUIRE(c->accept(token));
      text += vocabulary().pieces[static_cast<size_t>(token)];
      if (step % 5 == 0) REQUIRE(copy->accept(token));
      if (step % 5 == 0) CHECK(copy->mask() == c->mask());
    }
  }
}

TEST_CASE("texts drawn from the masks are texts of the grammar") {
  for (size_t r = 0; r < rows().size(); ++r) {
    CAPTURE(rows()[r].grammar);
    const auto grammar = gbnf(rows()[r].grammar);
    auto shared = TokenGrammar::create(grammar, vocabulary().trie);
    REQUIRE(shared);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Random random(seed);
      const auto c = make_constraint(*shared);
      const std::string text = random_text(*c, vocabulary(), random);
      CHECK_MESSAGE(Recogniser(*grammar, text).whole(), text);
      CHECK(c->mask().count() == 0);
      CHECK_FALSE(c->accept('a'));
    }
  }
}

TEST_CASE("the end of the text") {
  const auto c = constraint(gbnf(R"(root ::= "ab" "c"?)"), vocabulary().trie);
  CHECK_FALSE(c->complete());
  CHECK_FALSE(c->accept(vocabulary().eog));
  REQUIRE(c->accept('a'));
  REQUIRE(c->accept('b'));
  CHECK(c->complete());
  CHECK_FALSE(c->must_end());
  const auto other = c->clone();
  REQUIRE(c->accept('c'));
  CHECK(c->must_end());
  CHECK(c->mask().count() == 1);
  CHECK_FALSE(c->accept('c'));
  REQUIRE(other->accept(vocabulary().eog));
  CHECK(other->mask().count() == 0);
  REQUIRE(c->accept(vocabulary().eog));
}

TEST_CASE("what is no grammar is refused with its place") {
  constexpr auto kBad = StatusCode::invalid_argument;
  refused("", kBad, "no rule named root");
  refused("rot ::= \"a\"", kBad, "no rule named root");
  refused("root ::= a b\na ::= \"x\"", kBad, "line 1, column 12: the rule b is not there");
  refused("root ::= \"a\"\nroot ::= \"b\"", kBad, "line 2, column 5");
  refused("root = \"a\"", kBad, "::=");
  refused("root ::= \"a", kBad, "closing \"");
  refused("root ::= [a", kBad, "closing ]");
  refused("root ::= [z-a]", kBad, "precedes");
  refused("root ::= (\"a\"", kBad, ")");
  refused("root ::= \"a\")", kBad, "column 13");
  refused("root ::= \"\\q\"", kBad, "escape");
  refused("root ::= \"\\x4\"", kBad, "hexadecimal");
  refused("root ::= \"\\ud800\"", kBad, "not the code");
  refused("root ::= \"\xff\"", kBad, "UTF-8");
  refused("root ::= \"a\"{3,2}", kBad, "exceeds");
  refused("root ::= \"a\"{x}", kBad, "number");
  refused("root ::= *", kBad, "does not belong");
  refused("root ::= []", kBad, "no text matches");
  refused("root ::= root \"a\" | \"b\"", kBad, "left-recursive");
  refused("root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", kBad, "left-recursive");
  refused("root ::= \"a\" root", kBad, "no text matches");
  refused("root ::= <think>", StatusCode::unsupported, "tokens need a vocabulary");
  refused("root ::= \"a\"{0,1000000}", StatusCode::unsupported, "100000");
}

TEST_CASE("a vocabulary that cannot write the grammar is refused") {
  std::vector<TokenTrie::Piece> pieces{{"a", 0}, {"bc", 1}};
  const auto trie = std::make_shared<const TokenTrie>(pieces, std::vector<int32_t>{2}, 3);
  CHECK(make_constraint(gbnf(R"(root ::= "a")"), trie));
  const auto made = make_constraint(gbnf(R"(root ::= "abc")"), trie);
  REQUIRE(!made);
  CHECK(made.error().code() == StatusCode::unsupported);
  CHECK(made.error().message().find("0x62") != std::string::npos);
}
