// Schemas: what is drawn from the masks parses and validates; what cannot be promised is refused.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "tests/sample/grammar_support.h"
#include "tests/sample/schema_validator.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

const SmallVocabulary& vocabulary() {
  static const SmallVocabulary kVocabulary(
      {"\":",   "\": ", "\",",     "\", \"",  "{\"",      "\"}",      "[]",   "{}",
       "],",    "],\n", "}}",      "]}",      "[[",       "},",       "true", "false",
       "null",  "ab",   "abc",     "a\"",     "12",       "100",      "0.",   ".5",
       "-1",    "e1",   "20",      "2024-",   "\n  ",     "    ",     ", ",   "\\\"",
       "\\u00", "\\n",  "\\ud83d", "\\ude00", "\xc3\xa9", "\xe2\x82", "\xac", "\xf0\x9f\x98\x80",
       "kind",  "name", "s_",      "_i",      ": ",       "\"a",      "x\"",  "  ",
       "\n"});
  return kVocabulary;
}

void refused(const std::string& text, StatusCode code, const std::string& part) {
  CAPTURE(text);
  const auto grammar = compile_json_schema(text);
  REQUIRE(!grammar);
  CHECK(grammar.error().code() == code);
  CHECK_MESSAGE(grammar.error().message().find(part) != std::string::npos,
                grammar.error().message());
}

bool accepts(const std::shared_ptr<const CompiledGrammar>& grammar, const std::string& text) {
  const auto c = constraint(grammar, vocabulary().trie);
  for (const char byte : text) {
    if (!c->accept(static_cast<int32_t>(static_cast<uint8_t>(byte)))) return false;
  }
  return c->complete();
}

}  // namespace

TEST_CASE("documents drawn from the masks parse and validate") {
  using Json = nlohmann::ordered_json;
  const Json schemas = Json::parse(read_text(data_path("schemas.json")));
  CHECK(schemas.size() > 100);
  // With this variable set the documents go to that file, for other validators.
  const char* path = std::getenv("INFER_SCHEMA_DOCUMENTS");
  std::ofstream out;
  if (path != nullptr) out.open(path);
  for (const Json& one : schemas) {
    CAPTURE(one.dump());
    const auto grammar = schema(one.dump());
    auto shared = TokenGrammar::create(grammar, vocabulary().trie);
    REQUIRE(shared);
    Validator validator(one);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Random random(seed);
      const auto c = make_constraint(*shared);
      const std::string text =
          random_text(*c, vocabulary(), random, 30 + 10 * static_cast<int>(seed));
      CAPTURE(text);
      const Json value = Json::parse(text, nullptr, false);
      REQUIRE(!value.is_discarded());
      CHECK(validator.valid(value));
      if (text.size() < 300) CHECK(Recogniser(*grammar, text).whole());
      if (path != nullptr) out << Json({{"schema", one}, {"text", text}}).dump() << "\n";
    }
  }
}

TEST_CASE("masks of schemas are what a plain recogniser says of each token") {
  const SmallVocabulary& v = vocabulary();
  for (
      const char* text :
      {R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3},
            "n": {"type": "array", "items": {"type": "integer", "maximum": 120}, "maxItems": 2}},
            "required": ["n"], "additionalProperties": {"type": "null"}})",
       R"({"type": "string", "minLength": 2, "maxLength": 4})",
       R"({"type": "array", "items": {"type": "string", "pattern": "^a*\"?b$"}})",
       R"({"anyOf": [{"type": "array", "items": {"const": "ab"}}, {"enum": [["ab", 1], "abc"]}]})"}) {
    CAPTURE(text);
    const auto grammar = schema(text);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Random random(seed);
      const auto c = constraint(grammar, v.trie);
      std::string so_far;
      for (int step = 0; step < 12; ++step) {
        CAPTURE(so_far);
        const TokenMask mask = c->mask();
        for (size_t i = 0; i < v.pieces.size(); ++i) {
          const auto token = static_cast<int32_t>(i);
          const bool expected = Recogniser(*grammar, so_far + v.pieces[i]).prefix();
          if (mask.test(token) != expected || c->allows(token) != expected) {
            FAIL_CHECK("token " << v.pieces[i]);
          }
        }
        CHECK(mask.test(v.eog) == Recogniser(*grammar, so_far).whole());
        const std::vector<int32_t> allowed = tokens_of(mask);
        const int32_t token = allowed[random.below(static_cast<uint32_t>(allowed.size()))];
        if (token == v.eog) break;
        REQUIRE(c->accept(token));
        so_far += v.pieces[static_cast<size_t>(token)];
      }
    }
  }
}

TEST_CASE("what schemas allow can be written") {
  const auto person = schema(
      R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name"]})");
  CHECK(accepts(person, R"({"name":"J\u00e9r\ud83d\ude00\"","age":-12})"));
  CHECK(accepts(person, R"({"name": "x"})"));
  CHECK(accepts(person, "{\n  \"name\": \"x\",\n  \"age\": 0\n}"));
  CHECK(accepts(person, "{ \"name\": \"x\", \"age\": 1 }"));
  CHECK_FALSE(accepts(person, R"({"age":1,"name":"x"})"));
  CHECK_FALSE(accepts(person, R"({"name":"\ud83d"})"));
  CHECK_FALSE(accepts(person, R"({"name":"x","age":01})"));
  CHECK_FALSE(accepts(person, "{\"name\":\"\n\"}"));
  CHECK_FALSE(accepts(person, R"({"name":"x",})"));
  CHECK_FALSE(accepts(person, "{\"name\" :\"x\"}"));
  CHECK_FALSE(accepts(person, "{\"name\":  \"x\"}"));
  CHECK_FALSE(accepts(person, "{\"name\":\"\xff\"}"));

  const auto number = schema(R"({"type": "number"})");
  for (const char* text : {"0", "-0", "10", "1.5", "-0.25e-10", "1E5", "1234567890123456789"}) {
    CHECK(accepts(number, text));
  }
  for (const char* text :
       {"", "-", "01", "1.", ".5", "1e", "1e100", "12345678901234567890", "+1"}) {
    CHECK_FALSE(accepts(number, text));
  }
  const auto lengths = schema(R"({"type": "string", "minLength": 2, "maxLength": 3})");
  CHECK(accepts(lengths, "\"a\xf0\x9f\x98\x80\""));
  CHECK(accepts(lengths, R"("\ud83d\ude00\n\u0041")"));
  CHECK_FALSE(accepts(lengths, "\"\xf0\x9f\x98\x80\""));
  CHECK_FALSE(accepts(lengths, R"("\ud83d\ude00")"));
  CHECK_FALSE(accepts(lengths, "\"abcd\""));
  const auto object = schema(R"({"type": "object"})");
  CHECK(accepts(object, R"({"a": [1, {"b": null}], "": true})"));
  CHECK_FALSE(accepts(object, "[]"));
}

TEST_CASE("integers have all digits of 64 bits, and of their bounds") {
  const auto plain = schema(R"({"type": "integer"})");
  CHECK(accepts(plain, "-9223372036854775808"));
  CHECK_FALSE(accepts(plain, "12345678901234567890"));
  const auto identity =
      schema(R"({"type": "integer", "minimum": 0, "maximum": 9223372036854775807})");
  CHECK(accepts(identity, "1234567890123456789"));
  CHECK(accepts(identity, "9223372036854775807"));
  CHECK_FALSE(accepts(identity, "9223372036854775808"));
  const auto large = schema(R"({"type": "integer", "minimum": 100000000000000000})");
  CHECK(accepts(large, "100000000000000000"));
  CHECK_FALSE(accepts(large, "99999999999999999"));
}

TEST_CASE("an empty list of properties allows no other") {
  for (const char* text : {R"({"type": "object", "properties": {}})",
                           R"({"type": "object", "patternProperties": {}})"}) {
    const auto none = schema(text);
    CHECK(accepts(none, "{}"));
    CHECK_FALSE(accepts(none, R"({"a":1})"));
  }
  CHECK(accepts(schema(R"({"type": "object", "properties": {}, "additionalProperties": true})"),
                R"({"a":1})"));
}

TEST_CASE("names that older drafts have for keywords") {
  const auto pair =
      schema(R"({"items": [{"type": "integer"}, {"type": "boolean"}], "type": "array"})");
  CHECK(accepts(pair, "[1,true]"));
  CHECK_FALSE(accepts(pair, "[true]"));
  CHECK_FALSE(accepts(pair, "[1,true,1]"));
  const auto more = schema(
      R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "null"}})");
  CHECK(accepts(more, "[1,null,null]"));
  CHECK_FALSE(accepts(more, "[1,1]"));
  refused(R"({"items": [true], "prefixItems": [true]})", StatusCode::invalid_argument, "items");
  const auto dependent = schema(
      R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
                                    "dependencies": {"a": ["b"], "b": {"required": ["c"]}}})");
  CHECK(accepts(dependent, R"({"a":1,"b":2,"c":3})"));
  CHECK(accepts(dependent, R"({"c":3})"));
  CHECK_FALSE(accepts(dependent, R"({"a":1,"c":3})"));
  CHECK_FALSE(accepts(dependent, R"({"b":2})"));
}

TEST_CASE("formats allow what their standards do") {
  struct Case {
    const char* format;
    std::vector<std::string> valid, invalid;
  };
  const std::string label63(63, 'a');
  const Case cases[] = {
      {"date",
       {"0001-01-01", "1815-12-10", "1900-02-28", "2000-02-29", "2400-02-29", "1904-02-29",
        "9999-12-31"},
       {"0000-01-01", "1900-02-29", "2100-02-29", "2023-02-29", "2023-04-31", "12023-01-01"}},
      {"date-time",
       {"1815-12-10T23:59:59Z", "2024-02-29T00:00:00.123456789+02:00"},
       {"2024-02-29", "2024-02-29T24:00:00Z", "2024-02-29T00:00:00"}},
      {"duration",
       {"P1Y2M10DT2H30M", "PT36H", "P3W", "P4DT12H", "PT1M5S"},
       {"P", "PT", "P1W2D", "P1DT"}},
      {"email",
       {"o'brien@x.org", "first.last+tag@sub.example.co.uk", "a.b.c.d@e.f",
        std::string(64, 'x') + "@y.z", "root@localhost"},
       {"a@", "@b", "a..b@c", std::string(65, 'x') + "@y.z", "a b@c.d"}},
      {"hostname",
       {"s3.dualstack.us-east-1.amazonaws.com", label63 + ".example.com", "a.b.c.d.e.f.g.h"},
       {"-a", "a-", "a..b", label63 + "a"}},
      {"ipv6",
       {"::", "::1", "1::", "2001:db8::1", "2001:db8:0:0:0:0:0:1", "::ffff:192.0.2.1",
        "1:2:3:4:5:6:7::", "1:2:3:4:5:6:192.0.2.1", "fe80::1:2:3"},
       {"1", ":1", "1:::2", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1.2.3", "12345::"}},
      {"uri",
       {"https://www.youtube.com/watch?v=abc#t=1", "http://localhost:8080/a%20b", "mailto:a@b.org",
        "ftp://x.org/f", "urn:isbn:123", "https://a.b", "file:///etc/hosts", "http://127.0.0.1/",
        "data:text/plain;base64,QQ=="},
       {"/a/b", "www.x.org/a", "http://", "http://a b", "http://a/%2", "http://a:b/", "https://"}},
      {"uri-reference",
       {"/a/b", "a.html", "", "?q=1", "#part", "//x.org/y", "https://x.org/y", "../up", "a/b:c"},
       {"a b", "%2", "#a#b"}},
      {"iri", {"https://example.org/\u00fcber?x=\u65e5"}, {"a b"}},
      {"regex",
       {"^[a-z0-9_]+$", R"((\\d{3}-)?\\d{4})", "((a|b)c)*", "x?"},
       {"(", "[", "a**", "*a", "a{2,1}"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.format);
    const auto grammar =
        schema(std::string(R"({"type": "string", "format": ")") + one.format + "\"}");
    for (const std::string& text : one.valid) {
      CAPTURE(text);
      CHECK(accepts(grammar, nlohmann::json::parse("\"" + text + "\"").dump()));
    }
    for (const std::string& text : one.invalid) {
      CAPTURE(text);
      CHECK_FALSE(accepts(grammar, nlohmann::json(text).dump()));
    }
  }
}

TEST_CASE("languages with lengths") {
  // As Pydantic writes them.
  const auto link =
      schema(R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})");
  CHECK(accepts(link, R"("https://www.example.org/a/rather/long/path?with=a&query=1#fragment")"));
  CHECK_FALSE(accepts(link, R"("")"));
  CHECK(accepts(link, "\"https://x.org/" + std::string(200, 'a') + "\""));
  for (const char* most : {"50", "100", "254", "320"}) {
    CHECK(accepts(
        schema(std::string(R"({"type": "string", "format": "email", "maxLength": )") + most + "}"),
        R"("someone.else@example.org")"));
  }
  const auto word = schema(
      R"({"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "minLength": 3, "maxLength": 5})");
  for (const char* text : {"\"abc\"", "\"a_1\"", "\"abcde\""}) CHECK(accepts(word, text));
  for (const char* text : {"\"ab\"", "\"1bc\"", "\"abcdef\""}) CHECK_FALSE(accepts(word, text));
  // Behind a beginning of any length, lengths are part of the automaton.
  const auto either =
      schema(R"({"type": "string", "pattern": "^(a|bcd)x*$", "minLength": 2, "maxLength": 4})");
  for (const char* text : {"\"ax\"", "\"axxx\"", "\"bcd\"", "\"bcdx\""})
    CHECK(accepts(either, text));
  for (const char* text : {"\"a\"", "\"axxxx\"", "\"bcdxx\""}) CHECK_FALSE(accepts(either, text));
  // Many fields of one kind.
  std::string fields;
  for (int i = 0; i < 40; ++i) {
    fields += fmt::format(R"({}"a{}": {{"type": "string", "pattern": "^[^<>]*$", "maxLength": 255}},
                            "b{}": {{"type": "string", "pattern": "^\\S.*$", "maxLength": 500}},
                            "c{}": {{"type": "string", "format": "uri", "maxLength": 2083}})",
                          i == 0 ? "" : ",", i, i, i);
  }
  CHECK(compile_json_schema(R"({"type": "object", "properties": {)" + fields + "}}"));
}

TEST_CASE("ranges allow exactly the integers within") {
  for (const auto& [low, high] :
       {std::pair(-12, 7), {0, 0}, {-3, -1}, {9, 11}, {98, 1002}, {1, 1}}) {
    const auto grammar = schema(R"({"type": "integer", "minimum": )" + std::to_string(low) +
                                R"(, "maximum": )" + std::to_string(high) + "}");
    for (int i = -1100; i <= 1100; ++i) {
      CHECK(Recogniser(*grammar, std::to_string(i)).whole() == (i >= low && i <= high));
    }
  }
  const auto sevens = schema(R"({"type": "integer", "multipleOf": 7, "minimum": -50})");
  for (int i = -100; i <= 300; ++i) {
    CHECK(Recogniser(*sevens, std::to_string(i)).whole() == (i % 7 == 0 && i >= -50));
  }
}

TEST_CASE("branches of oneOf that overlap leave what exactly one allows") {
  struct Row {
    std::string schema;
    std::vector<std::string> yes, no;
  };
  const std::vector<Row> rows = {
      // 1.0 is an integer, and so is what a double rounds to one.
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
       {"0.5", "-12.25", "0.01", "123456789012.125"},
       {"1", "0", "1.0", "-2.00", "1e2", "1234567890123456.5", "1.0000000000000001"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number", "exclusiveMaximum": 1.5}]})",
       {"2", "100", "0.5", "-1.25", "1.49"},
       {"1", "0", "-3", "1.5", "1.75", "2.5"}},
      {R"({"type": "number", "not": {"type": "integer"}, "minimum": 1})", {"1.5"}, {"1", "0.5"}},
      {R"({"if": {"type": "integer"}, "then": {"const": 3}, "else": {"type": "number"}})",
       {"3", "0.5"},
       {"1", "4", "1.0", "null"}},
      {R"({"oneOf": [{"const": 1}, {"type": "integer"}]})",
       {"0", "2", "-1", "10", "11"},
       {"1", "0.5"}},
      {R"({"type": "number", "not": {"enum": [1, 2.5]}})",
       {"0", "2", "2.4", "2.51", "1.1", "3"},
       {"1", "2.5", "2.50", "1.0"}},
      {R"({"oneOf": [{"enum": [1, 2, "a"]}, {"enum": [2, 3, "a"]}]})",
       {"1", "3"},
       {"2", "\"a\"", "4"}},
      {R"({"oneOf": [{"enum": [[1], {"a": 1}]}, {"enum": [[1.0], {"b": 2}]}]})",
       {R"({"a":1})", R"({"b":2})"},
       {"[1]", "[1.0]"}},
      {R"({"oneOf": [{"type": "null"}, {"type": ["string", "null"], "maxLength": 1}]})",
       {"\"a\"", "\"\""},
       {"null", "\"ab\""}},
      {R"({"oneOf": [{"const": []}, {"type": "array", "maxItems": 1, "items": {"type": "null"}}]})",
       {"[null]"},
       {"[]", "[null,null]"}},
      {R"({"type": "object", "not": {"const": {}}, "properties": {"a": {"type": "null"}}})",
       {R"({"a":null})"},
       {"{}"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.schema);
    const auto grammar = schema(row.schema);
    for (const std::string& text : row.yes) CHECK_MESSAGE(accepts(grammar, text), text);
    for (const std::string& text : row.no) CHECK_MESSAGE(!accepts(grammar, text), text);
  }
  refused(R"({"not": {"const": [1]}})", StatusCode::unsupported, "the opposite of");
}

TEST_CASE("a byte order mark before a schema or a grammar is no part of it") {
  CHECK(accepts(schema("\xef\xbb\xbf{\"type\": \"null\"}"), "null"));
  CHECK(accepts(gbnf("\xef\xbb\xbfroot ::= \"yes\""), "yes"));
  const auto twice = compile_gbnf("\xef\xbb\xbf\xef\xbb\xbfroot ::= \"yes\"");
  REQUIRE(!twice);
  CHECK(twice.error().message().find("line 1, column 1") != std::string::npos);
}

TEST_CASE("a schema of which only unwritten values are left is not called unsatisfiable") {
  constexpr StatusCode kNot = StatusCode::unsupported;
  refused(R"({"type": "string", "not": {"format": "date"}})", kNot,
          "schema #/not: format: texts that only a format excludes are not written");
  refused(R"({"enum": ["b"], "oneOf": [{"type": "string", "format": "ipv4"}, {"enum": ["b"]}]})",
          kNot, "schema #: format: texts that only a format excludes");
  refused(R"({"type": "object", "properties": {"a": false}, "minProperties": 1})", kNot,
          "schema #: minProperties: without additionalProperties only the properties");
  // Others can be written.
  const auto dates =
      schema(R"({"oneOf": [{"type": "string", "format": "date"}, {"enum": ["b", 3]}]})");
  CHECK(accepts(dates, "\"2024-02-29\""));
  CHECK(accepts(dates, "3"));
  CHECK_FALSE(accepts(dates, "\"b\""));
  CHECK(accepts(
      schema(R"({"type": ["string", "null"], "not": {"type": "string", "format": "date"}})"),
      "null"));
  // These have none at all.
  constexpr StatusCode kBad = StatusCode::invalid_argument;
  refused(R"({"type": "object", "additionalProperties": false, "minProperties": 1})", kBad,
          "no value satisfies it");
  refused(R"({"type": "string", "format": "date", "maxLength": 2})", kBad, "no value satisfies it");
}

TEST_CASE("whole numbers of 64 bits keep their digits") {
  for (const std::string number :
       {"9007199254740993", "18446744073709551615", "-9223372036854775808", "1e+20"}) {
    CHECK(accepts(schema(R"({"const": )" + number + "}"), number));
  }
}

TEST_CASE("what cannot be promised is refused by place and keyword") {
  constexpr auto kBad = StatusCode::invalid_argument;
  constexpr auto kNot = StatusCode::unsupported;
  refused("{", kBad, "not valid JSON");
  refused("3", kBad, "neither an object nor a boolean");
  refused("false", kBad, "no value satisfies it");
  refused(R"({"type": "strnig"})", kBad, "schema #: type");
  refused(R"({"items": {"type": "array", "uniqueItems": true}})", kNot,
          "schema #/items: uniqueItems");
  refused(R"({"properties": {"a/b": {"multipleOf": 0.1}}})", kNot,
          "schema #/properties/a~1b: multipleOf");
  refused(R"({"allOf": [{"$ref": "http://example.com/x"}]})", kNot, "#/allOf/0: $ref");
  refused(R"({"$ref": "#/nowhere"})", kBad, "refers to nothing");
  refused(R"({"$ref": "#"})", kBad, "refers to itself");
  refused(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", kBad, "refers to itself");
  refused(R"({"$dynamicRef": "#x"})", kNot, "$dynamicRef");
  refused(R"s({"pattern": "(?=a)"})s", kNot, "pattern: at byte");
  refused(R"s({"pattern": "("})s", kBad, "pattern: at byte");
  refused(R"({"format": "idn-email"})", kNot, "idn-email");
  refused(R"({"oneOf": [{"properties": {"a": {"type": "array", "items": {"type": "null"}}}},
                        {"properties": {"a": {"type": "array", "items": {"const": 1}}}}]})",
          kNot, "not, oneOf or if: the opposite of items");
  refused(R"({"type": "integer", "oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]})", kNot,
          "oneOf: branches 0 and 1 may both hold");
  refused(R"({"not": {"multipleOf": 3}})", kNot, "not, oneOf or if: the opposite");
  refused(R"({"contains": {}, "maxContains": 2})", kNot, "maxContains");
  refused(R"({"type": "object", "minProperties": 3})", kNot, "minProperties");
  refused(R"({"unevaluatedProperties": false, "anyOf": [true]})", kNot, "unevaluatedProperties");
  refused(R"({"type": "integer", "minimum": 5, "maximum": 4})", kBad, "no value satisfies it");
  refused(R"({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}})", kBad,
          "no value satisfies it");
  refused(R"({"const": 12345678901234567890123})", kNot, "schema #: const: a whole number");
  refused(R"({"const": 100000000000000000001})", kNot, "schema #: const: a whole number");
  // As a server writes the first one that it has read.
  refused(R"({"const": 1.2345678901234568e+22})", kNot, "schema #: const: a whole number");
  refused(R"({"properties": {"a": {"enum": [1, {"b": [-9223372036854775809]}]}}})", kNot,
          "schema #/properties/a: enum: a whole number");
  refused(R"({"exclusiveMinimum": true})", kBad, "exclusiveMinimum");
}
