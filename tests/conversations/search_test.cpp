// Search over all conversations.
#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

TEST_CASE_FIXTURE(Fixture, "search finds words, beginnings of words, phrases and titles") {
  const Id id = must(store->create(titled("Über Bären"))).id;
  must(store->add(id, from_user(0, "The quick brown fox")));
  NewMessage thought = from_assistant(0, "nothing");
  thought.reasoning = "a brown thought";
  must(store->add(id, thought));
  const auto found = [&](const char* query) { return must(store->search(query)).size(); };
  CHECK(found("fox quick") == 1);
  CHECK(found("QUI") == 1);
  CHECK(found("fox wolf") == 0);
  CHECK(found("\"quick brown\"") == 1);
  CHECK(found("\"brown quick\"") == 0);
  CHECK(found("\"qui\"") == 0);
  CHECK(found("baren") == 1);
  const std::vector<Hit> hits = must(store->search("brown"));
  REQUIRE(hits.size() == 2);
  CHECK(hits[0].rank > hits[1].rank);  // in a text it counts more than in reasoning
  CHECK(hits[0].snippet == "The quick brown fox");
  REQUIRE(hits[0].matches.size() == 1);
  CHECK(hits[0].snippet.substr(hits[0].matches[0].first, hits[0].matches[0].second) == "brown");
  CHECK(hits[0].title == "Über Bären");
  CHECK(must(store->search("brown", 1)).size() == 1);
  CHECK(must(store->search("brown", 0)).empty());
  const Hit title = must(store->search("über")).at(0);
  CHECK(title.message == 0);
  CHECK(title.conversation == id);
  must(store->rename(id, "other"));
  CHECK(found("baren") == 0);
}

TEST_CASE_FIXTURE(Fixture, "no query is an error of syntax") {
  const Id id = must(store->create(titled("title"))).id;
  must(store->add(id, from_user(0, "a b AND or NOT near(x) don't C++ 日本語 ½ x_y col:umn")));
  const std::string texts[] = {"\"",
                               "\"\"",
                               "*",
                               "a*",
                               "^a",
                               "a AND",
                               "NOT",
                               "OR OR",
                               "NEAR(a b, 2)",
                               "col:umn",
                               "text:a",
                               "{text}:a",
                               "-a",
                               "a -b",
                               "(",
                               ")",
                               "((((",
                               "'",
                               "'; DROP TABLE messages; --",
                               "a\"b",
                               "\"a",
                               "+",
                               "a + b",
                               "\\",
                               std::string("a\0b", 3),
                               "\xff\xfe",
                               "日本",
                               "½",
                               "don't",
                               "C++",
                               ",",
                               std::string(100'000, '"'),
                               std::string(100'000, 'a'),
                               "rank",
                               "   "};
  for (const std::string& text : texts) {
    const Result<std::vector<Hit>> hits = store->search(text);
    CHECK_MESSAGE(hits.has_value(), text.substr(0, 100));
  }
  const auto found = [&](const char* query) { return must(store->search(query)).size(); };
  CHECK(found("a AND") == 1);
  CHECK(found("NOT") == 1);
  CHECK(found("don't") == 1);
  CHECK(found("C++") == 1);
  CHECK(found("a -") == 1);  // what has no letter does not count
  CHECK(found("near(x)") == 1);
  uint64_t random = 1;
  for (int i = 0; i < 2'000; ++i) {
    std::string text;
    for (int length = 0; length < 12; ++length) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      text += "\"*()-+:^{}aANDORT \x01\x7f\xc3\xa9"[(random >> 33) % 23];
    }
    CHECK_MESSAGE(store->search(text).has_value(), text);
  }
}

}  // namespace
}  // namespace infer::conversations::test
