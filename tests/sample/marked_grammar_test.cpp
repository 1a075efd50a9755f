// Grammars that hold a text only behind a mark, and the elements of grammars that they are made of.
#include <cmath>

#include "engine/sample/grammar/marked_constraint.h"
#include "engine/sample/sampler.h"
#include "engine/text/tokenizer.h"
#include "tests/sample/grammar_support.h"
#include "tests/text/tiny_vocab.h"

using namespace infer;
using namespace infer::test;

namespace {

struct Tokens {
  Tokens() {
    TokenizerSpec spec = sentencepiece_spec();
    eos = spec.eos;
    call = add_token(spec, "<|open|>", TokenType::control);
    end = add_token(spec, "<|shut|>", TokenType::control);
    think = add_token(spec, "<think>", TokenType::user_defined);
    for (const char* text : {"<to", "ol>", "x<tool>", "ol>{", "ol>x", "ol>a", "tool", "{}", "ab"}) {
      add_token(spec, text);
    }
    auto made = Tokenizer::create(std::move(spec));
    REQUIRE(made);
    tokenizer = *std::move(made);
    trie = TokenTrie::of(*tokenizer);
  }

  /// The longest token that a text begins with, one after the other.
  std::vector<int32_t> tokens(std::string_view text) const {
    std::vector<int32_t> out;
    while (!text.empty()) {
      int32_t best = -1;
      for (int32_t id = 3; id < tokenizer->vocab_size(); ++id) {
        const std::string_view piece = tokenizer->piece(id);
        if (!text.starts_with(piece) || piece.empty()) continue;
        if (best < 0 || piece.size() > tokenizer->piece(best).size()) best = id;
      }
      out.push_back(best);
      text.remove_prefix(tokenizer->piece(best).size());
    }
    return out;
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const TokenTrie> trie;
  int32_t eos = 0, call = 0, end = 0, think = 0;
};

const Tokens& all_tokens() {
  static const Tokens kTokens;
  return kTokens;
}

std::shared_ptr<TokenGrammar> compiled(const std::string& text) {
  auto grammar = compile_gbnf(text, all_tokens().tokenizer.get());
  REQUIRE_MESSAGE(grammar, (grammar ? std::string() : text + ": " + grammar.error().message()));
  auto made = TokenGrammar::create(*grammar, all_tokens().trie);
  REQUIRE(made);
  return *made;
}

std::unique_ptr<Constraint> marked(const std::string& text, const GrammarStart& start) {
  return make_marked_constraint(compiled(text), all_tokens().tokenizer, start);
}

/// Accepts the tokens of a text, which are all allowed; whether they all were.
bool take(Constraint& constraint, const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens) {
    const bool allowed = constraint.allows(token);
    if (!constraint.is_free()) CHECK(constraint.mask().test(token) == allowed);
    if (!allowed) return false;
    REQUIRE(constraint.accept(token));
  }
  return true;
}

bool take(Constraint& constraint, std::string_view text) {
  return take(constraint, all_tokens().tokens(text));
}

bool accepts(const std::string& grammar, const std::vector<int32_t>& tokens) {
  const auto constraint = make_constraint(compiled(grammar));
  return take(*constraint, tokens) && constraint->complete();
}

bool accepts(const std::string& grammar, std::string_view text) {
  return accepts(grammar, all_tokens().tokens(text));
}

constexpr const char* kTool = "root ::= \"<tool>\" \"{\" [a-c]* \"}\"";

}  // namespace

TEST_CASE("a text is free until the mark, and again behind what the grammar reads") {
  const auto c = marked(kTool, {.marks = {"<tool>"}, .again = true});
  CHECK(take(*c, "free } text <tool, <to <too"));
  CHECK(c->is_free());
  CHECK(c->complete());
  CHECK(take(*c, " <tool>"));
  CHECK_FALSE(c->is_free());
  CHECK_FALSE(c->complete());
  CHECK_FALSE(c->allows(all_tokens().eos));
  CHECK_FALSE(take(*c, "x"));
  CHECK(take(*c, "{abab"));
  CHECK_FALSE(take(*c, "x"));
  CHECK(take(*c, "}"));
  CHECK(c->is_free());
  CHECK_FALSE(c->must_end());
  CHECK(take(*c, "free x <to"));
  CHECK(take(*c, "ol>{"));
  CHECK_FALSE(c->is_free());
  CHECK(take(*c, "}"));
  CHECK(c->accept(all_tokens().eos));
  CHECK(c->is_free());
}

TEST_CASE("without `again` the text ends with what the grammar reads") {
  const auto c = marked(kTool, {.marks = {"<tool>"}});
  CHECK(take(*c, "ab <tool>{c"));
  CHECK_FALSE(c->must_end());
  CHECK(take(*c, "}"));
  CHECK(c->must_end());
  CHECK(c->complete());
  CHECK(c->accept(all_tokens().eos));
  CHECK_FALSE(c->allows(all_tokens().eos));
}

TEST_CASE("a mark begins and ends within tokens") {
  const Tokens& v = all_tokens();
  const auto id = [&](std::string_view piece) {
    const std::vector<int32_t> tokens = v.tokens(piece);
    REQUIRE(tokens.size() == 1);
    return tokens[0];
  };
  {
    const auto c = marked(kTool, {.marks = {"<tool>"}});
    CHECK(take(*c, {id("x<tool>"), id("{}")}));
    CHECK(c->must_end());
  }
  const auto c = marked(kTool, {.marks = {"<tool>"}});
  CHECK(take(*c, {id("<to")}));
  CHECK(c->is_free());
  CHECK_FALSE(c->mask_is_known());  // a mark may have begun
  // What is left of a token behind the mark has to be read by the grammar.
  CHECK(c->allows(id("ol>{")));
  CHECK_FALSE(c->allows(id("ol>x")));
  for (int32_t token = 0; token < v.tokenizer->vocab_size(); ++token) {
    CHECK(c->mask().test(token) == c->allows(token));
  }
  const auto other = c->clone();
  CHECK(take(*c, {id("ol>{"), id("ab")}));
  CHECK_FALSE(c->is_free());
  CHECK(take(*other, {id("ol>")}));
  CHECK_FALSE(take(*other, {id("ab")}));
  CHECK(take(*c->clone(), "}"));
}

TEST_CASE("a mark may be a control token") {
  const Tokens& v = all_tokens();
  const char* text = "root ::= %special \"<|open|>\" \"{\" [a-c]* \"}\" %special \"<|shut|>\"";
  const auto c = marked(text, {.marks = {"<|open|>"}, .again = true});
  CHECK(take(*c, "ab "));
  CHECK(take(*c, {v.end, v.call}));
  CHECK_FALSE(c->is_free());
  CHECK_FALSE(take(*c, {v.call}));
  CHECK(take(*c, "{ab}"));
  CHECK_FALSE(c->is_free());
  CHECK(take(*c, {v.end}));
  CHECK(c->is_free());
  // Or spelt in letters.
  std::vector<int32_t> letters;
  for (const char letter : std::string_view("<|open|>")) {
    letters.push_back(v.tokens(std::string_view(&letter, 1)).front());
  }
  CHECK(take(*c, letters));
  CHECK_FALSE(c->is_free());
}

TEST_CASE("marks of the beginning") {
  const GrammarStart start{.first = {"{\"name\": \"f\""}};
  const char* text = "root ::= \"{\\\"name\\\": \\\"f\\\", 1}\"";
  for (const char* before : {"", " \n "}) {
    const auto c = marked(text, start);
    CHECK(take(*c, std::string(before) + "{\"name\": \"f\","));
    CHECK_FALSE(c->is_free());
    CHECK_FALSE(take(*c, "2"));
  }
  for (const char* before : {"x", "{\"name\": \"g\"}\n", "{}"}) {
    const auto c = marked(text, start);
    CHECK(take(*c, std::string(before) + "{\"name\": \"f\", 2}"));
    CHECK(c->is_free());
    CHECK(c->mask_is_known());
  }
}

TEST_CASE("marks in a passage at the beginning do not count") {
  GrammarStart start{.marks = {"<tool>"}, .skip_open = "<think>", .skip_close = "</think>"};
  for (const char* before : {"<think>a <tool> b</think>", "\n<think>", ""}) {
    const auto c = marked(kTool, start);
    CHECK(take(*c, before));
    CHECK(c->is_free());
    const bool inside = std::string_view(before).ends_with("<think>");
    CHECK(take(*c, "\n<tool>"));
    CHECK(c->is_free() == inside);
  }
  // Later it is text.
  const auto late = marked(kTool, start);
  CHECK(take(*late, "a <think> <tool>"));
  CHECK_FALSE(late->is_free());
  start.skipping = true;
  const auto c = marked(kTool, start);
  CHECK(take(*c, "a <tool> b</thi"));
  CHECK(c->is_free());
  CHECK(take(*c, "nk><tool>{}"));
  CHECK(c->must_end());
}

TEST_CASE("a free text is chosen without a mask, and marks hold it in all ways to choose") {
  const Tokens& v = all_tokens();
  const auto tokens = v.tokens("ol>x");
  REQUIRE(tokens.size() == 1);
  std::vector<float> logits(static_cast<size_t>(v.tokenizer->vocab_size()), 0.0f);
  logits[static_cast<size_t>(tokens[0])] = 50;
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    SamplerChain chain(params);
    const auto c = marked(kTool, {.marks = {"<tool>"}});
    CHECK(chain.sample(logits, {}, c.get()) == tokens[0]);
    REQUIRE(take(*c, "<to"));
    const int32_t other = chain.sample(logits, {}, c.get());
    CHECK(other != tokens[0]);
    CHECK(c->allows(other));
    // If there is no other one, the text stays free.
    std::vector<float> only(logits.size(), -std::numeric_limits<float>::infinity());
    only[static_cast<size_t>(tokens[0])] = 1;
    CHECK(chain.sample(only, {}, c.get()) == tokens[0]);
    CHECK(c->accept(tokens[0]));
    CHECK(c->is_free());
  }
}

TEST_CASE("any text up to a mark") {
  CHECK(accepts("root ::= %until \"</x>\"", "a <b> </y> <</x>"));
  CHECK(accepts("root ::= %until \"</x>\" \"a\"", "</</x>a"));
  CHECK_FALSE(accepts("root ::= %until \"</x>\"", "a</x>b</x>"));
  CHECK_FALSE(accepts("root ::= %until \"</x>\"", "a</x"));
  CHECK(accepts("root ::= %until \"aab\" \"c\"", "aaaabc"));
  const Tokens& v = all_tokens();
  std::vector<int32_t> tokens = v.tokens("a <b>");
  tokens.insert(tokens.end(), {v.call, v.think, v.end});
  CHECK(accepts("root ::= %until \"<|shut|>\"", tokens));
  tokens.insert(tokens.begin(), v.end);
  CHECK_FALSE(accepts("root ::= %until \"<|shut|>\"", tokens));
}

TEST_CASE("control tokens within a text") {
  const Tokens& v = all_tokens();
  std::vector<int32_t> tokens = v.tokens("a");
  tokens.push_back(v.call);
  const std::vector<int32_t> rest = v.tokens("b");
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  CHECK(accepts("root ::= %special \"a<|open|>b\"", tokens));
  CHECK(accepts("root ::= \"a\" (%special \"<|open|>b\")+", tokens));
  CHECK_FALSE(accepts("root ::= \"a<|open|>b\"", tokens));
  // A token that ends the text of the model stands for itself.
  const auto c = make_constraint(compiled("root ::= \"a\" %special \"</s>\""));
  CHECK(take(*c, "a"));
  CHECK(c->allows(v.eos));
  CHECK(take(*c, "</"));
  CHECK_FALSE(c->allows(v.eos));
}

TEST_CASE("JSON schemas within a grammar") {
  const std::string object =
      "%json {\"type\": \"object\", \"properties\": {\"a}\\\\\\\"\": {\"enum\": "
      "[\"}\", 1]}}, \"required\": [\"a}\\\\\\\"\"]}";
  const std::string text = "root ::= \"<\" " + object + " \">\" | \"t\" %json true # any";
  CHECK(accepts(text, "<{\"a}\\\\\\\"\": \"}\"}>"));
  CHECK(accepts(text, "<{\"a}\\\\\\\"\":1}>"));
  CHECK_FALSE(accepts(text, "<{\"a}\\\\\\\"\":2}>"));
  CHECK_FALSE(accepts(text, "<{}>"));
  CHECK(accepts(text, "t[1, {\"x\": null}]"));
  CHECK(accepts("root ::= (%json {\"type\":\"boolean\"}){2}", "truefalse"));
  // References are to the schema's own document.
  const std::string own = "%json {\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"const\": ";
  const std::string both = "root ::= " + own + "1}}} | \"-\" " + own + "2}}}";
  CHECK(accepts(both, "1"));
  CHECK(accepts(both, "-2"));
  CHECK_FALSE(accepts(both, "2"));
}

TEST_CASE("mistakes in these elements are told") {
  const auto wrong = [](const std::string& text, const std::string& expected, StatusCode code) {
    const auto grammar = compile_gbnf(text);
    REQUIRE_MESSAGE(!grammar, text);
    CHECK_MESSAGE(grammar.error().message().find(expected) != std::string::npos,
                  grammar.error().message());
    CHECK(grammar.error().code() == code);
  };
  constexpr StatusCode kWrong = StatusCode::invalid_argument;
  wrong("root ::= %jsn {}", "column 10: %json, %special or %until is expected", kWrong);
  wrong("root ::= %until x", "column 17: a text in quotes", kWrong);
  wrong("root ::= %special \"\"", "a text in quotes", kWrong);
  wrong("root ::= %json x", "column 16: a JSON schema is expected", kWrong);
  wrong("root ::= %json {\"a\": \"}\"", "column 16: the closing }", kWrong);
  wrong("root ::= %json {\"type\": 5}", "column 16: the schema: ", kWrong);
  wrong("root ::= \"a\" | %json \"the tool f\" {\"$ref\": \"http://x\"}",
        "the tool f: ", StatusCode::unsupported);
  wrong("root ::= \"a\" | %json \"the tool f\" {\"not\": {}}", "the tool f: ", kWrong);
}
