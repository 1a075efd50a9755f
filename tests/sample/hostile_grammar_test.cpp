// Grammars, schemas and patterns made to exhaust time, memory or the stack: each is refused with a
// reason or works.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/sample/grammar/regex.h"
#include "tests/sample/grammar_support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string repeat(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// Time is printed where it is long and bounded loosely: sanitizers and busy machines are slow.
template <typename Compile>
void survive(const std::string& what, const Compile& compile) {
  const auto begin = std::chrono::steady_clock::now();
  const auto compiled = compile();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CAPTURE(what);
  try_out(compiled);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  if (all.count() > 0.3) {
    MESSAGE(what << ": compiled in " << took.count() << " s, used after " << all.count() << " s, "
                 << (compiled ? std::string("works") : compiled.error().message()));
  }
  CHECK(all.count() < 60);
}

}  // namespace

TEST_CASE("hostile grammars") {
  std::string chain = "root ::= r0\n";
  std::string wide = "root ::= \"a\"";
  std::string ambiguous = "root ::= a0\n";
  std::string doubling = "root ::= d0\n";
  for (int i = 0; i < 20'000; ++i) {
    chain += fmt::format("r{} ::= r{} \"a\"\n", i, i + 1);
    wide += fmt::format(" | r{}", i);
  }
  for (int i = 0; i < 60; ++i) {
    ambiguous += fmt::format("a{0} ::= a{1} \"x\" | a{1} \"y\" | a{1}\n", i, i + 1);
    doubling += fmt::format("d{0} ::= d{1} d{1}\n", i, i + 1);
  }
  const std::vector<std::pair<std::string, std::string>> all = {
      {"nested groups", "root ::= " + repeat("(", 100'000) + "\"a\"" + repeat(")", 100'000)},
      {"open groups", "root ::= " + repeat("(", 100'000)},
      {"groups at the limit", "root ::= " + repeat("(", 190) + "\"a\"" + repeat(")*", 190)},
      {"repetitions of repetitions", "root ::= \"a\"" + repeat("*", 100'000)},
      {"large counts", "root ::= (\"a\" | \"b\"){0,100000}"},
      {"large counts of characters", "root ::= [ab]{0,100000} \"c\""},
      {"counts of counts", "root ::= ((\"a\"{1000}){1000}){1000}"},
      {"counts of nothing", "root ::= (((\"\"{100000}){100000}){100000})"},
      {"optional run", "root ::= " + repeat("\"a\"? ", 50'000)},
      {"optional run, short", "root ::= " + repeat("\"a\"? ", 500)},
      {"subsets", "root ::= [ab]* \"a\" [ab]{31}"},
      {"subsets, long", "root ::= [ab]* \"a\" (\"a\" | \"b\"){5000}"},
      {"chain of rules", chain + "r20000 ::= \"b\"\n"},
      {"rules that are not there", wide},
      {"ambiguous", ambiguous + "a60 ::= \"a\" | \"a\" a60\n"},
      {"doubling", doubling + "d60 ::= \"a\"?\n"},
      {"self product", "root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\""},
      {"palindromes", "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"\""},
      {"empty loops", "root ::= ((\"\")* (\"\")*)* x*\nx ::= \"\" | \"a\"?"},
      {"deep", "root ::= \"(\" root \")\" | \"a\" root \"a\" root \"b\" | \"c\""},
      {"a long literal", "root ::= \"" + repeat("a", 900'000) + "\""},
      {"a long name", "root ::= " + repeat("a", 900'000)},
      {"too long", repeat("#", 2'000'000)},
      {"zeros", std::string(1000, '\0')},
      {"many sets", "root ::= " + repeat("[^\\u1234\\u5678] | ", 20'000) + "\"a\""},
  };
  for (const auto& [what, text] : all) {
    survive(what, [&, &grammar = text] { return compile_gbnf(grammar); });
  }
}

TEST_CASE("hostile schemas") {
  std::string wide = R"({"properties": {)";
  std::string any = R"({"allOf": [)";
  std::string values = R"({"enum": [)";
  std::string refs = R"({"$ref": "#/$defs/0", "$defs": {)";
  std::string doubling = refs;
  for (int i = 0; i < 20'000; ++i) {
    wide += fmt::format("{}\"{}\":true", i == 0 ? "" : ",", i);
    values += fmt::format("{}{}", i == 0 ? "" : ",", i);
  }
  for (int i = 0; i < 1000; ++i) {
    refs += fmt::format(R"("{}": {{"$ref": "#/$defs/{}"}},)", i, i + 1);
  }
  for (int i = 0; i < 60; ++i) {
    any +=
        fmt::format(R"({}{{"anyOf": [{{"minimum": 1}}, {{"maxLength": 3}}]}})", i == 0 ? "" : ",");
    doubling += fmt::format(
        R"("{0}": {{"allOf": [{{"$ref": "#/$defs/{1}"}}, {{"$ref": "#/$defs/{1}"}}]}},)", i, i + 1);
  }
  std::string optional = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 3000; ++i) {
    optional += fmt::format(R"({}"p{}": {{"type": "string"}})", i == 0 ? "" : ",", i);
  }
  const std::vector<std::pair<std::string, std::string>> all = {
      {"nested arrays", repeat("[", 100'000)},
      {"nested schemas", repeat(R"({"items":)", 100'000) + "{}" + repeat("}", 100'000)},
      {"nested at the limit", repeat(R"({"items":)", 250) + "{}" + repeat("}", 250)},
      {"nested allOf", repeat(R"({"allOf":[)", 120) + "{}" + repeat("]}", 120)},
      {"many properties", wide + "}}"},
      {"optional properties", optional + "}}"},
      {"many values", values + "]}"},
      {"combinations", any + "]}"},
      {"chain of references", refs + R"("1000": {}}})"},
      {"doubling references", doubling + R"("60": {"type": "integer"}}})"},
      {"mutual references",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}})"},
      {"large minItems", R"({"type": "array", "minItems": 1000000000000})"},
      {"large maxItems",
       R"({"type": "array", "maxItems": 1000000000000, "items": {"type": "null"}})"},
      {"many counted arrays",
       R"({"type": "array", "maxItems": 4000, "items": {"type": "array", "maxItems": 4000, "items": {"type": "array", "minItems": 4000}}})"},
      {"large lengths",
       R"({"type": "string", "minLength": 900000, "maxLength": 18446744073709551615})"},
      {"lengths beyond", R"({"type": "string", "minLength": 1e30})"},
      {"lengths and a pattern", R"({"type": "string", "minLength": 900, "pattern": "a.*b.*c.*d"})"},
      {"large multiples", R"({"type": "integer", "multipleOf": 1000003})"},
      {"multiples of multiples",
       R"({"type": "integer", "allOf": [{"multipleOf": 999983}, {"multipleOf": 999979}, {"multipleOf": 65537}]})"},
      {"numbers out of range", R"({"type": "number", "minimum": 1e308, "maximum": -1e-308})"},
      {"no number", R"({"minimum": 1e999})"},
      {"minProperties",
       R"({"type": "object", "maxProperties": 4000, "minProperties": 1, "properties": {"a": {}, "b": {}}})"},
      {"patterns of names",
       R"({"patternProperties": {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}}})"},
      {"a long key", R"({"properties": {")" + repeat("k", 500'000) +
                         R"(": {"properties": {"a": {"type": "x"}}}}})"},
      {"not not", repeat(R"({"not":)", 150) + R"({"type": "null"})" + repeat("}", 150)},
      {"cyclic not", R"({"not": {"$ref": "#"}})"},
      {"cyclic values",
       R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"], "enum": [{"a": {"a": 1}}]})"},
      {"oneOf of itself",
       R"({"oneOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 1}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 1, "minItems": 1}]})"},
  };
  for (const auto& [what, text] : all) {
    survive(what, [&, &json = text] { return compile_json_schema(json); });
  }
}

TEST_CASE("hostile patterns") {
  const std::vector<std::string> all = {repeat("(", 8'000),
                                        repeat("(a", 150) + repeat(")*", 150),
                                        repeat("a?", 4'000) + repeat("a", 100),
                                        "(a*)*b",
                                        "^(a|a)*$",
                                        "((a{100}){100}){100}",
                                        "(.*a){40}",
                                        "[ab]*a[ab]{30}",
                                        repeat("\\w", 8'000),
                                        repeat("[^\\W\\d]", 1'500),
                                        repeat("\\p{L}|", 2'000),
                                        "(x|" + repeat("y|", 5'000) + "z)*",
                                        "(|a|b*)*{2}",
                                        repeat("^", 10'000) + repeat("$", 6'000),
                                        repeat("(^|a)", 1'000)};
  for (const std::string& pattern : all) {
    survive(pattern.substr(0, 40), [&] {
      return compile_json_schema(nlohmann::json({{"type", "string"}, {"pattern", pattern}}).dump());
    });
  }
}

TEST_CASE("bytes that are no schema and no grammar") {
  const std::string sample =
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}, "b": {"$ref": "#"}}, "minProperties": 1})";
  const std::string rules = "root ::= [a-z]{2,3} (\"x\" | root)? # c\n";
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    std::string json = sample;
    std::string text = rules;
    for (int n = 0; n < 3; ++n) {
      json[random.below(static_cast<uint32_t>(json.size()))] = static_cast<char>(random.below(256));
      text[random.below(static_cast<uint32_t>(text.size()))] = static_cast<char>(random.below(256));
    }
    CAPTURE(i);
    CAPTURE(json);
    CAPTURE(text);
    try_out(compile_json_schema(json));
    try_out(compile_gbnf(text));
    try_out(compile_json_schema(sample.substr(0, static_cast<size_t>(i) % sample.size())));
    try_out(compile_gbnf(rules.substr(0, static_cast<size_t>(i) % rules.size())));
  }
}

TEST_CASE("many hostile parts in one schema share their limits") {
  std::string patterns = R"({"type": "object", "properties": {)";
  std::string names = R"({"type": "array", "prefixItems": [)";
  for (int i = 0; i < 400; ++i) {
    const char* comma = i == 0 ? "" : ",";
    patterns += fmt::format(R"({}"{}": {{"pattern": "^[ab]*a[ab]{{11}}{}$"}})", comma, i, i);
    names += comma;
    names += R"({"patternProperties": {)";
    for (int p = 0; p < 6; ++p) {
      names += fmt::format(R"({}"a.*{}.*b.*{}": {{}})", p == 0 ? "" : ",", p, i);
    }
    names += "}}";
  }
  std::string required = R"({"allOf": [)";
  for (int i = 0; i < 40; ++i) {
    required += fmt::format(R"({}{{"anyOf": [{{}}, {{"required": [)", i == 0 ? "" : ",");
    for (int p = 0; p < 300; ++p) required += fmt::format("{}\"n{}_{}\"", p == 0 ? "" : ",", i, p);
    required += "]}]}";
  }
  survive("patterns", [&] { return compile_json_schema(patterns + "}}"); });
  survive("patterns of names", [&] { return compile_json_schema(names + "]}"); });
  survive("required", [&] { return compile_json_schema(required + "]}"); });
}
