// Objects with hundreds of optional properties: what is accepted, the size of the grammar, masks.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/sample/grammar/matcher.h"
#include "tests/hostile.h"
#include "tests/sample/grammar_support.h"

using namespace infer;
using namespace infer::test;

namespace {

using Json = nlohmann::ordered_json;

/// An object whose properties are all integers but for `nested`, which are objects of this kind.
struct ObjectSpec {
  std::vector<std::string> names;
  std::set<size_t> required;
  std::map<size_t, ObjectSpec> nested;
  bool additional = false;

  Json schema() const {
    Json out = {{"type", "object"}, {"additionalProperties", additional}};
    for (size_t i = 0; i < names.size(); ++i) {
      const auto inner = nested.find(i);
      out["properties"][names[i]] =
          inner == nested.end() ? Json{{"type", "integer"}} : inner->second.schema();
    }
    for (const size_t i : required) out["required"].push_back(names[i]);
    return out;
  }
};

/// Members as they are written: also out of order, and several times.
struct Member {
  std::string name;
  std::string value = "1";
};

std::string written(const std::vector<Member>& members) {
  std::string out = "{";
  for (const Member& m : members) {
    if (out.size() > 1) out += ", ";
    out += Json(m.name).dump() + ": " + m.value;
  }
  return out + "}";
}

/// Whether the object may be written: in order, each name once, the required ones among them, names
/// that are not listed behind the others if at all. Values are not looked at.
bool allowed(const ObjectSpec& spec, const std::vector<Member>& members) {
  size_t next = 0;
  size_t others = 0;
  std::set<size_t> missing = spec.required;
  for (const Member& m : members) {
    const auto at = static_cast<size_t>(std::ranges::find(spec.names, m.name) - spec.names.begin());
    if (at == spec.names.size()) {
      ++others;
      continue;
    }
    if (at < next || others > 0) return false;
    next = at + 1;
    missing.erase(at);
  }
  return missing.empty() && (others == 0 || spec.additional);
}

bool accepts(Matcher& matcher, const std::string& text) {
  Matcher::SetId set = matcher.start();
  for (const char c : text) {
    set = matcher.step(set, static_cast<uint8_t>(c));
    if (set == Matcher::kDead) return false;
  }
  return matcher.complete(set);
}

std::string number_name(int i) { return fmt::format("property_of_a_very_long_kind_{}", i); }

/// Names of many kinds: beginnings of others, long common beginnings, such that need escapes.
std::string mixed_name(int i) {
  switch (i % 6) {
    case 0: return number_name(i);
    case 1: return fmt::format("{:x}", i * 2654435761u);
    case 2: return fmt::format("quoted \"{}\" \\ name", i);
    case 3: return fmt::format("\xc3\xa9t\xc3\xa9\t{}\x01", i);
    case 4: return fmt::format("{}property", i);
    default: return std::string(static_cast<size_t>(i % 37), 'a') + std::to_string(i / 37);
  }
}

ObjectSpec spec_of(int size, std::string (*name)(int), size_t required_every = 0) {
  ObjectSpec spec;
  for (int i = 0; i < size; ++i) spec.names.push_back(name(i));
  for (size_t i = required_every; required_every != 0 && i < spec.names.size();
       i += required_every) {
    spec.required.insert(i);
  }
  return spec;
}

/// A subset in order with all that is required, its values as the nested objects say.
std::vector<Member> draw(const ObjectSpec& spec, Random& random, uint32_t one_in) {
  std::vector<Member> out;
  for (size_t i = 0; i < spec.names.size(); ++i) {
    if (!spec.required.contains(i) && random.below(one_in) != 0) continue;
    Member& m = out.emplace_back(Member{spec.names[i]});
    const auto inner = spec.nested.find(i);
    if (inner != spec.nested.end()) m.value = written(draw(inner->second, random, one_in));
  }
  return out;
}

/// Documents of the schema, and such that differ from one in a single place.
void check_documents(const ObjectSpec& spec, uint64_t seed, int rounds) {
  Matcher matcher(schema(spec.schema().dump()));
  Random random(seed);
  int yes = 0, no = 0;
  const auto check = [&](const std::vector<Member>& members) {
    const bool expected = allowed(spec, members);
    ++(expected ? yes : no);
    CHECK_MESSAGE(accepts(matcher, written(members)) == expected, written(members));
  };
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Member> members = draw(spec, random, 1 + random.below(40));
    check(members);
    if (members.size() < 2) continue;
    const auto any = [&] { return random.below(static_cast<uint32_t>(members.size())); };
    std::vector<Member> other = members;
    std::swap(other[any()], other[any()]);
    check(other);
    other = members;
    other.insert(other.begin() + any(), other[any()]);
    check(other);
    other = members;
    other.erase(other.begin() + any());
    check(other);
    if (!spec.required.empty()) {
      other = members;
      auto left = random.below(static_cast<uint32_t>(spec.required.size()));
      auto it = spec.required.begin();
      for (; left > 0; --left) ++it;
      std::erase_if(other, [&](const Member& m) { return m.name == spec.names[*it]; });
      check(other);
    }
    for (const bool last : {false, true}) {
      // The beginning of a name, a name and more, and one of its own.
      for (const std::string& name : {members[0].name.substr(0, members[0].name.size() / 2),
                                      members[0].name + "0", std::string("unknown")}) {
        if (name.empty() || static_cast<uint8_t>(name.back()) >= 0x80) continue;
        other = members;
        other.insert(last ? other.end() : other.begin() + any(), Member{name});
        check(other);
      }
    }
  }
  CHECK(yes >= rounds);
  CHECK(no >= rounds);
}

}  // namespace

TEST_CASE("hundreds of optional properties: documents") {
  check_documents(spec_of(250, number_name), 1, 20);
  check_documents(spec_of(1000, number_name), 2, 8);
  check_documents(spec_of(250, mixed_name), 3, 20);
  check_documents(spec_of(1000, mixed_name), 4, 8);
}

TEST_CASE("hundreds of optional properties: required ones among them, nested objects") {
  check_documents(spec_of(250, mixed_name, 40), 5, 20);
  check_documents(spec_of(1000, number_name, 97), 6, 8);
  check_documents(spec_of(30, mixed_name, 1), 7, 4);
  ObjectSpec spec = spec_of(250, mixed_name, 60);
  for (size_t i = 0; i < 250; i += 35) spec.nested[i] = spec_of(60, mixed_name, 7);
  check_documents(spec, 8, 20);
}

TEST_CASE("hundreds of optional properties beside others") {
  for (auto* name : {number_name, mixed_name}) {
    ObjectSpec spec = spec_of(250, name);
    spec.additional = true;
    check_documents(spec, 9, 20);
    spec = spec_of(1000, name, 300);
    spec.additional = true;
    check_documents(spec, 10, 8);
  }
}

TEST_CASE("the grammar of optional properties grows with their names") {
  const auto states = [](const ObjectSpec& spec) {
    return schema(spec.schema().dump())->state_count();
  };
  for (auto* name : {number_name, mixed_name}) {
    const uint32_t few = states(spec_of(250, name));
    const uint32_t many = states(spec_of(1000, name));
    CAPTURE(few);
    CHECK(few < 250 * 60);
    CHECK(many < 6 * few);
    ObjectSpec open = spec_of(250, name);
    open.additional = true;
    const uint32_t open_few = states(open);
    open = spec_of(1000, name);
    open.additional = true;
    CHECK(states(open) < 6 * open_few);
  }
}

TEST_CASE("counts of properties beside hundreds of optional ones") {
  ObjectSpec spec = spec_of(250, number_name);
  Json json = spec.schema();
  json["minProperties"] = 1;
  Matcher some(schema(json.dump()));
  json["maxProperties"] = 3;
  Matcher few(schema(json.dump()));
  Random random(11);
  std::set<size_t> sizes;
  for (int round = 0; round < 60; ++round) {
    const std::vector<Member> members = draw(spec, random, 20 + random.below(200));
    sizes.insert(members.size());
    const std::string text = written(members);
    CHECK_MESSAGE(accepts(some, text) == !members.empty(), text);
    CHECK_MESSAGE(accepts(few, text) == (!members.empty() && members.size() <= 3), text);
  }
  CHECK(sizes.contains(0));
  CHECK(sizes.contains(3));
  CHECK(sizes.contains(4));
}

TEST_CASE("more properties than there may be: no object, or one that cannot be promised") {
  // An optional member whose value is impossible is left out.
  const auto grammar = schema(
      R"({"properties": {"a": {"type": "object", "minProperties": 1, "additionalProperties": false},
          "b": {"type": "object", "minProperties": 3, "properties": {"c": {"type": "null"}},
                "additionalProperties": false}, "d": {"type": "null"}}, "type": "object"})");
  Matcher matcher(grammar);
  CHECK(accepts(matcher, R"({"d":null})"));
  CHECK(accepts(matcher, "{}"));
  CHECK_FALSE(accepts(matcher, R"({"a":{}})"));
  const auto refused = compile_json_schema(
      R"({"type": "object", "minProperties": 2, "properties": {"a": {"type": "null"}}})");
  REQUIRE(!refused);
  CHECK(refused.error().code() == StatusCode::unsupported);
  CHECK(refused.error().message().find("minProperties") != std::string::npos);
}

TEST_CASE("a grammar that is too large is refused with its limit") {
  std::string names;
  for (int i = 0; i < 1200; ++i) {
    names += fmt::format(R"({}"{}": true)", i == 0 ? "" : ",", std::string(1u + i, 'a'));
  }
  const auto refused = compile_json_schema(R"({"properties": {)" + names + "}}");
  REQUIRE(!refused);
  CHECK(refused.error().code() == StatusCode::unsupported);
  CHECK(refused.error().message().find("400000 states and edges") != std::string::npos);
}

TEST_CASE("masks of optional properties are what a plain recogniser says, and few ways are open") {
  const SmallVocabulary v({"\"property_of", "_a_very_long", "_kind_",      "_kind_1", "12",
                           "\": ",          "\": 1",        ", \"",        "{\"",     "}",
                           "1, ",           "quoted \\\"",  "\\\\ name\"", "aa",      "aaaaaaa",
                           "\\t",           "\xc3",         "\xa9t",       "\\u0001", "00"});
  for (const bool additional : {false, true}) {
    ObjectSpec spec = spec_of(250, mixed_name, 90);
    spec.additional = additional;
    const auto grammar = schema(spec.schema().dump());
    Matcher matcher(grammar);
    Random random(12);
    for (int document = 0; document < 3; ++document) {
      const auto c = constraint(grammar, v.trie);
      const std::string text = written(draw(spec, random, 50));
      Matcher::SetId set = matcher.start();
      for (size_t at = 0; at < std::min<size_t>(text.size(), 80); ++at) {
        const std::string so_far = text.substr(0, at);
        CAPTURE(so_far);
        const TokenMask mask = c->mask();
        // Single bytes of three kinds only, else the plain recogniser takes long.
        for (size_t i = at % 7; i < v.pieces.size(); i += i < 256 ? 7 : 1) {
          const bool expected = Recogniser(*grammar, so_far + v.pieces[i]).prefix();
          if (mask.test(static_cast<int32_t>(i)) != expected) {
            FAIL_CHECK("token " << v.pieces[i]);
          }
        }
        CHECK(mask.test(v.eog) == Recogniser(*grammar, so_far).whole());
        CHECK(matcher.configs(set).size() <= 16);
        REQUIRE(c->accept(static_cast<uint8_t>(text[at])));
        set = matcher.step(set, static_cast<uint8_t>(text[at]));
      }
    }
    CHECK(matcher.work() < 20'000);
  }
}

TEST_CASE("hostile objects end within bounds of time and memory") {
  const auto properties = [](int count, auto&& name, const Json& value) {
    Json out = {{"type", "object"}, {"additionalProperties", false}};
    out["properties"] = Json::object();
    // As a list: the type itself looks for each name among all others.
    Json::object_t::Container& list = out["properties"].get_ref<Json::object_t&>();
    for (int i = 0; i < count; ++i) list.emplace_back(name(i), value);
    return out;
  };
  const auto short_name = [](int i) { return std::to_string(i); };
  const auto random_name = [](int i) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    Random random(static_cast<uint64_t>(i));
    std::string out;
    for (int n = 0; n < 12; ++n) out += kDigits[random.below(64)];
    return out + std::to_string(i);
  };
  const Json integer = {{"type", "integer"}};
  std::vector<std::pair<std::string, Json>> all;
  for (const int count : {3000, 5000, 10'000}) {
    all.emplace_back("short names", properties(count, short_name, integer));
    all.emplace_back("random names", properties(count, random_name, integer));
    all.emplace_back("long names", properties(count, number_name, integer));
    all.push_back(all.back());
    all.back().second["additionalProperties"] = true;
  }
  all.emplace_back("each the beginning of the next",
                   properties(
                       1200, [](int i) { return std::string(1u + i, 'a'); }, integer));
  all.emplace_back("in nests", properties(75, short_name, properties(250, short_name, integer)));
  all.emplace_back("in too many nests",
                   properties(250, short_name, properties(250, short_name, true)));
  Json nests = properties(250, number_name, {{"$ref", "#/$defs/0"}});
  for (int i = 0; i < 20; ++i) {
    nests["$defs"][std::to_string(i)] =
        properties(250, number_name, {{"$ref", "#/$defs/" + std::to_string((i + 1) % 20)}});
  }
  all.emplace_back("in nests of references", nests);
  Json counted = properties(1000, number_name, integer);
  counted["maxProperties"] = 500;
  all.emplace_back("at most half of them", counted);
  counted["minProperties"] = 400;
  all.emplace_back("about half of them", counted);
  Json any;
  for (int i = 0; i < 40; ++i) {
    any["anyOf"].push_back(properties(250 + i, number_name, {{"$ref", "#/$defs/x"}}));
  }
  any["$defs"]["x"] = integer;
  all.emplace_back("alike in many alternatives", any);
  Json depends = properties(1000, number_name, integer);
  for (int i = 0; i < 8; ++i) {
    depends["dependentRequired"][number_name(100 * i)] = {number_name(100 * i + 50)};
  }
  all.emplace_back("dependent ones", depends);
  Json patterns = properties(1000, number_name, integer);
  patterns["patternProperties"] = {{"^x", true}, {"y$", true}};
  all.emplace_back("beside patterns", patterns);
  for (const auto& [name, json] : all) {
    CAPTURE(name);
    check_bounded({name, "", ""}, [text = json.dump()] { try_out(compile_json_schema(text)); });
  }
}
