// Grammars that name tokens: what they accept, that masks are what a plain recogniser says of every
// token, and mistakes.
#include "engine/text/tokenizer.h"
#include "tests/sample/grammar_support.h"
#include "tests/text/tiny_vocab.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Control tokens, text tokens that run across what grammars read, and one for each byte.
struct Vocabulary {
  Vocabulary() {
    TokenizerSpec spec = sentencepiece_spec();
    eos = spec.eos;
    think = add_token(spec, "<think>", TokenType::control);
    no_think = add_token(spec, "</think>", TokenType::control);
    tool = add_token(spec, "<tool>", TokenType::user_defined);
    a = add_token(spec, "a");
    ab = add_token(spec, "ab");
    abx = add_token(spec, "abx");
    x = add_token(spec, "x");
    spare = add_token(spec, "<spare>", TokenType::unused);
    for (const char* text : {"aa", "bb", "xx", "xa", "<", "<th", "ink>", "\xc3\xa9"}) {
      add_token(spec, text);
    }
    auto made = Tokenizer::create(std::move(spec));
    REQUIRE(made);
    tokenizer = *std::move(made);
    trie = TokenTrie::of(*tokenizer);
  }
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const TokenTrie> trie;
  int32_t eos = 0, think = 0, no_think = 0, tool = 0, a = 0, ab = 0, abx = 0, x = 0, spare = 0;
};

const Vocabulary& vocabulary() {
  static const Vocabulary kVocabulary;
  return kVocabulary;
}

std::shared_ptr<const CompiledGrammar> with_tokens(const std::string& text) {
  auto grammar = compile_gbnf(text, vocabulary().tokenizer.get());
  REQUIRE_MESSAGE(grammar, (grammar ? std::string() : text + ": " + grammar.error().message()));
  return *grammar;
}

bool accepts(const std::shared_ptr<const CompiledGrammar>& grammar,
             const std::vector<int32_t>& tokens) {
  const auto c = constraint(grammar, vocabulary().trie);
  for (const int32_t token : tokens) {
    const bool allowed = c->allows(token);
    CHECK(c->mask().test(token) == allowed);
    CHECK(c->accept(token) == allowed);
    if (!allowed) return false;
  }
  CHECK(c->allows(vocabulary().eos) == c->complete());
  return c->complete();
}

struct Row {
  std::string grammar;
  std::vector<std::vector<int32_t>> yes, no;
};

std::vector<Row> rows() {
  const Vocabulary& v = vocabulary();
  const std::string tool = "<[" + std::to_string(v.tool) + "]>";
  return {
      {"root ::= <[5]> \"a\"", {{5, v.a}}, {{v.a}, {5}, {5, 5}, {6, v.a}, {5, v.ab}, {5, v.eos}}},
      {"root ::= <think> (!</think>)* </think> \"x\"",
       {{v.think, v.no_think, v.x}, {v.think, v.think, v.tool, v.abx, 0, v.spare, v.no_think, v.x}},
       {{v.think, v.x},
        {v.no_think, v.x},
        {v.think, v.eos},
        {v.think, v.no_think, v.no_think, v.x},
        {v.think, v.no_think}}},
      // By bytes, as the token, and both: what goes on differs.
      {"root ::= \"ab\" \"1\" | " + tool + " \"2\" | \"<tool>\" \"3\"", {}, {}},
      {"root ::= (" + tool + " | \"<tool>\" \"x\")+",
       {{v.tool}, {v.tool, v.x}, {v.tool, v.tool, v.tool, v.x}},
       {{v.x}, {v.tool, v.x, v.x}}},
      {"root ::= !<think> !<think>",
       {{v.a, v.no_think}, {v.no_think, v.tool}},
       {{v.think, v.a}, {v.a, v.think}, {v.a}, {v.a, v.a, v.a}}},
      {"root ::= (!<think> | <think> \"x\")*",
       {{}, {v.think, v.x}, {v.a, v.think, v.x, v.a}},
       {{v.think}, {v.think, v.a}, {v.think, v.think}}},
      {"root ::= (!<think> \"a\" | !</think> \"x\")+",
       {{v.think, v.x}, {v.no_think, v.a}, {v.tool, v.x}, {v.tool, v.a, v.think, v.x}},
       {{v.think, v.a}, {v.no_think, v.x}}},
      {"root ::= \"a\" <tool> \"b\"? | \"aa\" <think>{2,3} block*\nblock ::= <tool> block </think> "
       "| !<think>",
       {{v.a, v.tool},
        {v.a, v.a, v.think, v.think},
        {v.a, v.a, v.think, v.think, v.tool, v.a, v.no_think}},
       {{v.a}, {v.a, v.think}, {v.a, v.a, v.think}}},
      {"root ::= [a-z]{0,40} <tool> | [ax]* !<tool>",
       {{v.tool}, {v.abx, v.a, v.tool}, {v.a, v.x, v.think}, {v.spare}},
       {{}, {v.abx, v.spare, v.a}}},
      {"root ::= \"(\" root \")\" | <think> root | !<tool> </think>", {}, {}},
      {"root ::= (!</think>){0,40} </think>", {{v.a, v.a, v.no_think}}, {{v.a}}},
      {"root ::= <think> dead | <tool> | !<[0]> dead\ndead ::= <think> dead",
       {{v.tool}},
       {{v.think}, {v.a}}},
  };
}

}  // namespace

TEST_CASE("grammars with tokens accept their tokens and no others") {
  for (const Row& row : rows()) {
    CAPTURE(row.grammar);
    const auto grammar = with_tokens(row.grammar);
    for (const auto& tokens : row.yes) {
      CAPTURE(tokens.size());
      CHECK(accepts(grammar, tokens));
      CHECK(Recogniser(*grammar, tokens, *vocabulary().trie).whole());
    }
    for (const auto& tokens : row.no) {
      CAPTURE(tokens.size());
      CHECK_FALSE(accepts(grammar, tokens));
    }
  }
}

TEST_CASE("masks of grammars with tokens are what a plain recogniser says of each token") {
  const Vocabulary& v = vocabulary();
  for (const Row& row : rows()) {
    CAPTURE(row.grammar);
    const auto grammar = with_tokens(row.grammar);
    auto shared = TokenGrammar::create(grammar, v.trie);
    REQUIRE(shared);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Random random(seed);
      auto c = make_constraint(*shared);
      std::vector<int32_t> so_far;
      for (int step = 0; step < 8; ++step) {
        CAPTURE(so_far.size());
        // Places are carried over to new tables.
        if (step % 3 == 2) (*shared)->give_up_tables();
        const TokenMask mask = c->mask();
        CHECK(mask.count() > 0);
        std::vector<int32_t> next = so_far;
        for (int32_t token = 0; token < v.trie->vocab_size(); ++token) {
          if (token == v.eos) continue;
          next.push_back(token);
          const bool expected = Recogniser(*grammar, next, *v.trie).prefix();
          next.pop_back();
          if (mask.test(token) != expected || c->allows(token) != expected) {
            FAIL_CHECK("token " << v.tokenizer->piece(token));
          }
        }
        CHECK(mask.test(v.eos) == Recogniser(*grammar, so_far, *v.trie).whole());
        // Named tokens as often as all others together.
        std::vector<int32_t> allowed = tokens_of(mask);
        if (random.below(2) == 0) {
          std::erase_if(allowed, [&](int32_t t) { return t < v.think || t > v.x; });
          if (allowed.empty()) allowed = tokens_of(mask);
        }
        const int32_t token = allowed[random.below(static_cast<uint32_t>(allowed.size()))];
        if (token == v.eos) break;
        // What a copy accepts leaves the original where it is: that is how drafts are taken back.
        const auto copy = c->clone();
        for (int ahead = 0; ahead < 3; ++ahead) {
          const std::vector<int32_t> more = tokens_of(copy->mask());
          if (more.empty()) break;
          REQUIRE(copy->accept(more[random.below(static_cast<uint32_t>(more.size()))]));
        }
        CHECK(c->mask() == mask);
        REQUIRE(c->accept(token));
        so_far.push_back(token);
      }
    }
  }
}

TEST_CASE("a token with an edge of its own is no text, and text may go on within tokens") {
  const Vocabulary& v = vocabulary();
  // Spelt out, the token's bytes are not the token.
  const auto as_token = with_tokens("root ::= <tool>");
  CHECK(accepts(as_token, {v.tool}));
  const auto c = constraint(as_token, v.trie);
  CHECK(tokens_of(c->mask()) == std::vector<int32_t>{v.tool});
  REQUIRE(c->accept(v.tool));
  CHECK(c->must_end());
  CHECK(tokens_of(c->mask()) == std::vector<int32_t>{v.eos});
  // A token of text ends where the named one begins.
  const auto behind = with_tokens("root ::= \"a\" <tool>");
  CHECK_FALSE(accepts(behind, {v.ab, v.tool}));
  CHECK(accepts(behind, {v.a, v.tool}));
  // Both ways at once: "ab" by its bytes has "x" behind it, as any token it has "1".
  const auto both = with_tokens("root ::= \"ab\" \"x\" | !<think> \"1\"");
  const int32_t one = v.tokenizer->token_to_id(byte_token('1'));
  CHECK(accepts(both, {v.ab, v.x}));
  CHECK(accepts(both, {v.ab, one}));
  CHECK(accepts(both, {v.abx}));
  CHECK(accepts(both, {v.abx, one}));
  CHECK(accepts(both, {v.x, one}));
  CHECK_FALSE(accepts(both, {v.x, v.x}));
}

TEST_CASE("grammars without tokens have no tables of them") {
  const auto plain = compile_gbnf("root ::= \"a\"+ [b-z]{0,50}", vocabulary().tokenizer.get());
  REQUIRE(plain);
  CHECK_FALSE((*plain)->reads_tokens());
  for (uint32_t s = 0; s < (*plain)->state_count(); ++s) CHECK((*plain)->token_edges(s).empty());
}

TEST_CASE("mistakes with tokens are refused with their place") {
  const auto refused = [](const std::string& text, StatusCode code, const std::string& part,
                          const Tokenizer* tokenizer) {
    CAPTURE(text);
    const auto grammar = compile_gbnf(text, tokenizer);
    REQUIRE(!grammar);
    CHECK(grammar.error().code() == code);
    CHECK_MESSAGE(grammar.error().message().find(part) != std::string::npos,
                  grammar.error().message());
  };
  const Tokenizer* t = vocabulary().tokenizer.get();
  constexpr auto kBad = StatusCode::invalid_argument;
  refused("root ::= <[99999]>", kBad, "line 1, column 10: the vocabulary has 275 tokens", t);
  refused("root ::= \"a\"\n  | !<[275]>", kBad, "line 2, column 6: the vocabulary", t);
  refused("root ::= <[99999999999999999999999999]>", kBad, "the vocabulary has", t);
  refused("root ::= <[-1]>", kBad, "column 12: the id of a token is expected", t);
  refused("root ::= <[]>", kBad, "the id of a token is expected", t);
  refused("root ::= <[5>", kBad, "column 13: ]> is expected", t);
  refused("root ::= <[5]", kBad, "]> is expected", t);
  refused("root ::= <[5", kBad, "]> is expected", t);
  refused("root ::= <thinking>", kBad, "column 10: <thinking> is not one token", t);
  refused("root ::= <ab>", kBad, "<ab> is not one token", t);
  refused("root ::= <>", kBad, "<> is not one token", t);
  refused("root ::= <think\n>", kBad, "column 10: the closing > is missing", t);
  refused("root ::= <", kBad, "the closing > is missing", t);
  refused("root ::= !\"a\"", kBad, "column 11: a token in < > is expected", t);
  refused("root ::= !!<think>", kBad, "a token in < >", t);
  refused("root ::= \"a\" </s>", kBad, "column 14: this token ends the text", t);
  refused("root ::= !<[2]>", kBad, "this token ends the text", t);
  refused("root ::= <" + std::string(100'000, 'x') + ">", kBad, "is not one token", t);
  refused("root ::= <think> root", kBad, "no text matches", t);
  refused("root ::= <think>", StatusCode::unsupported, "tokens need a vocabulary", nullptr);
}

TEST_CASE("a grammar of another vocabulary, and one that excludes every token, are refused") {
  const std::vector<TokenTrie::Piece> pieces{{"a", 0}, {"b", 1}};
  const auto trie = std::make_shared<const TokenTrie>(pieces, std::vector<int32_t>{2}, 3);
  const auto made = make_constraint(with_tokens("root ::= <think>"), trie);
  REQUIRE(!made);
  CHECK(made.error().code() == StatusCode::invalid_argument);
  CHECK(!make_constraint(with_tokens("root ::= !<think>"), trie));
  TokenizerSpec spec;
  spec.model = "llama";
  spec.unknown = add_token(spec, "<unk>", TokenType::unknown);
  spec.eos = add_token(spec, "</s>", TokenType::control);
  const auto tokenizer = Tokenizer::create(std::move(spec));
  REQUIRE(tokenizer);
  const auto nothing = compile_gbnf("root ::= !<unk>", tokenizer->get());
  REQUIRE(nothing);
  const auto none = make_constraint(*nothing, TokenTrie::of(**tokenizer));
  REQUIRE(!none);
  CHECK(none.error().code() == StatusCode::unsupported);
}

TEST_CASE("hostile grammars of tokens end soon") {
  const auto repeated = [](const std::string& text, size_t times) {
    std::string out = "root ::= ";
    for (size_t i = 0; i < times; ++i) out += text;
    return out + "\"a\"";
  };
  std::string many = "root ::= (\"a\"";
  std::string all_but = "root ::= (\"a\"";
  for (int i = 0; i < 20'000; ++i) {
    const int id = i % vocabulary().trie->vocab_size();
    if (id == vocabulary().eos) continue;
    many += " | <[" + std::to_string(id) + "]>";
    all_but += " | !<[" + std::to_string(id) + "]>";
  }
  for (const std::string& text :
       {repeated("!<[5]>|", 140'000), repeated("<[5]>|", 150'000), repeated("(!<[5]>)* ", 50'000),
        repeated("(!<[5]> <[6]>?)* ", 2'000), repeated("<[5]>{0,100000} ", 3),
        std::string("root ::= (!<[5]> | \"a\")* <[5]> (!<[6]>){30}"), many + ")*",
        all_but + ")*"}) {
    CAPTURE(text.substr(0, 60));
    const auto grammar = compile_gbnf(text, vocabulary().tokenizer.get());
    if (!grammar) {
      CHECK(grammar.error().code() == StatusCode::unsupported);
      continue;
    }
    walk(*constraint(*grammar, vocabulary().trie), vocabulary().eos, 20);
  }
}
