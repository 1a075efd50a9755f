// What masks cost over real vocabularies, for the reader: nothing is asserted about time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "engine/weights/weight_source.h"
#include "tests/sample/grammar_support.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

struct Document {
  std::string name, schema, text;
};

std::vector<Document> documents() {
  std::string list = "[";
  for (int i = 0; i < 12; ++i) {
    list += fmt::format(
        R"({}{{"id": {}, "name": "Item number {}", "tags": ["red", "large"], "price": 12.5}})",
        i == 0 ? "" : ", ", i * 37, i);
  }
  list += "]";
  std::string many = R"({"type": "object", "additionalProperties": false, "properties": {)";
  std::string some = "{";
  for (int i = 0; i < 1000; ++i) {
    many += fmt::format(R"({}"{}_{}": {{"type": "integer"}})", i == 0 ? "" : ", ",
                        i % 3 == 0 ? "price" : "a longer name", i * 37 % 1000);
    if (i % 40 != 7) continue;
    some += fmt::format(R"({}"{}_{}": {})", i == 7 ? "" : ", ",
                        i % 3 == 0 ? "price" : "a longer name", i * 37 % 1000, i);
  }
  return {
      {"many optional properties", many + "}}", some + "}"},
      {"person",
       R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
           "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"},
           "address": {"type": "object", "properties": {"street": {"type": "string"}, "city":
           {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required":
           ["street", "city", "zip"]}}, "required": ["name", "age", "email", "address"]})",
       R"({"name": "Ada Lovelace", "age": 36, "email": "ada@example.com", "address": {"street": "12 St James's Square", "city": "London", "zip": "10115"}})"},
      {"list",
       R"({"type": "array", "maxItems": 50, "items": {"type": "object", "properties": {"id":
           {"type": "integer"}, "name": {"type": "string", "maxLength": 80}, "tags": {"type":
           "array", "items": {"type": "string"}, "maxItems": 8}, "price": {"type": "number",
           "minimum": 0}}, "required": ["id", "name", "tags", "price"]}})",
       list},
      {"bounded text",
       R"({"type": "object", "properties": {"summary": {"type": "string", "minLength": 20,
           "maxLength": 400}, "sentiment": {"enum": ["positive", "neutral", "negative"]}},
           "required": ["summary", "sentiment"]})",
       R"({"summary": "The engine reads a grammar, follows every way to read the text so far, and tells which tokens may come next; most of a string's tokens are known in advance, so that only those which close it have to be tried with what stands around the string.", "sentiment": "neutral"})"},
      {"any object", R"({"type": "object"})",
       R"({"a": {"b": [1, 2.5, {"c": "some longer text with words", "d": null}], "flag": true}, "message": "Hello, world! This is free text.", "n": -17})"},
      {"tree",
       R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"label":
           {"type": "string", "pattern": "^[a-z ]+$"}, "children": {"type": "array", "items":
           {"$ref": "#/$defs/node"}}}, "required": ["label", "children"]}}})",
       R"({"label": "root", "children": [{"label": "left side", "children": [{"label": "leaf", "children": []}, {"label": "another leaf", "children": []}]}, {"label": "right side", "children": []}]})"},
  };
}

/// The longest token that the text begins with, at each place.
std::vector<int32_t> split(const TokenTrie& trie, std::string_view text) {
  std::vector<int32_t> tokens;
  for (size_t pos = 0; pos < text.size();) {
    size_t size = 0;
    int32_t best = -1;
    for (uint32_t i = 0; i < trie.node_count();) {
      const TokenTrie::Node& node = trie.node(i);
      if (pos + node.depth >= text.size() ||
          node.byte != static_cast<uint8_t>(text[pos + node.depth])) {
        i = node.end;
        continue;
      }
      if (!trie.tokens_at(i).empty()) {
        best = trie.tokens_at(i).front();
        size = node.depth + 1u;
      }
      ++i;
    }
    REQUIRE(best >= 0);
    tokens.push_back(best);
    pos += size;
  }
  return tokens;
}

struct Cost {
  double mean = 0, most = 0;  ///< milliseconds
};

Cost walk(const std::shared_ptr<TokenGrammar>& grammar, const std::vector<int32_t>& tokens) {
  Cost cost;
  const auto c = make_constraint(grammar);
  for (const int32_t token : tokens) {
    const auto begin = std::chrono::steady_clock::now();
    const TokenMask& mask = c->mask();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    cost.mean += took.count() / static_cast<double>(tokens.size());
    cost.most = std::max(cost.most, took.count());
    REQUIRE(mask.test(token));
    REQUIRE(c->allows(token));
    REQUIRE(c->accept(token));
  }
  CHECK(c->complete());
  return cost;
}

void measure(const std::string& path) {
  auto source = open_model(path);
  REQUIRE_MESSAGE(source, source.error().message());
  const auto tokenizer = Tokenizer::create((*source)->tokenizer());
  REQUIRE(tokenizer);
  const auto trie = TokenTrie::of(**tokenizer);
  MESSAGE(path << ": " << trie->vocab_size() << " tokens, " << trie->node_count() << " nodes");
  for (const Document& d : documents()) {
    const auto begin = std::chrono::steady_clock::now();
    const auto grammar = schema(d.schema);
    const std::chrono::duration<double, std::milli> compiled =
        std::chrono::steady_clock::now() - begin;
    auto shared = TokenGrammar::create(grammar, trie);
    REQUIRE(shared);
    const std::vector<int32_t> tokens = split(*trie, d.text);
    const Cost cold = walk(*shared, tokens);
    const Cost warm = walk(*shared, tokens);
    MESSAGE(d.name << ", " << tokens.size() << " tokens: compiled in " << compiled.count()
                   << " ms; masks cold " << cold.mean << " ms (at most " << cold.most << "), warm "
                   << warm.mean << " (" << warm.most << ")");
  }
}

}  // namespace

TEST_CASE("masks over real vocabularies allow real documents") {
  measure(data_path("vocab/llama-spm.gguf"));
  measure(data_path("vocab/llama-bpe.gguf"));
}

TEST_CASE("special tokens are never allowed, and end tokens where the text may end") {
  auto source = open_model(data_path("vocab/llama-spm.gguf"));
  REQUIRE(source);
  const auto tokenizer = Tokenizer::create((*source)->tokenizer());
  REQUIRE(tokenizer);
  const auto trie = TokenTrie::of(**tokenizer);
  const auto c = constraint(gbnf("root ::= .*"), trie);
  const TokenMask& mask = c->mask();
  for (int32_t id = 0; id < trie->vocab_size(); ++id) {
    if ((*tokenizer)->is_eog(id)) {
      CHECK(mask.test(id));
    } else if ((*tokenizer)->is_control(id) || (*tokenizer)->piece(id).empty()) {
      CHECK_FALSE(mask.test(id));
    }
  }
  CHECK(mask.test((*tokenizer)->token_to_id("<0x41>")));
  CHECK_FALSE(mask.test((*tokenizer)->token_to_id("<0xFF>")));
}
