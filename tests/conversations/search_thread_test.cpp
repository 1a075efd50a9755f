// Searches beside the store, and short queries.
#include <chrono>
#include <optional>
#include <thread>

#include "conversations/async_store.h"
#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE_FIXTURE(Fixture, "words of one or two letters are found, and words that begin so") {
  const Id id = must(store->create(titled("t"))).id;
  const Id word = must(store->add(id, from_user(0, "q is a letter"))).id;
  const Id longer = must(store->add(id, from_user(0, "quick fox"))).id;
  const Id cyrillic = must(store->add(id, from_user(0, "яблоко"))).id;
  must(store->move_to_trash(must(store->create(titled("gone"))).id));
  const auto found = [&](const char* query) {
    std::vector<Id> ids;
    for (const Hit& hit : must(store->search(query))) ids.push_back(hit.message);
    return ids;
  };
  CHECK(found("q") == std::vector<Id>{word, longer});  // the word itself comes first
  CHECK(found("qu") == std::vector<Id>{longer});
  CHECK(found("fox q") == std::vector<Id>{longer});
  CHECK(found("letter q") == std::vector<Id>{word});
  CHECK(found("fox x").empty());
  CHECK(found("яб") == std::vector<Id>{cyrillic});
  const Hit hit = must(store->search("qu")).at(0);
  CHECK(hit.conversation == id);
  CHECK(hit.title == "t");
  REQUIRE(hit.matches.size() == 1);
  CHECK(hit.snippet.substr(hit.matches[0].first, hit.matches[0].second) == "quick");
  must(store->move_message_to_trash(longer));
  CHECK(found("qu").empty());
  CHECK(must(store->search("q", 1)).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "of very many matches the newest are found") {
  ImportedConversation many;
  for (Id i = 1; i <= 5'000; ++i) {
    Message message;
    message.id = i;
    message.text = "word";
    many.messages.push_back(message);
  }
  must(store->add_imported(many));
  const std::vector<Hit> hits = must(store->search("word", 1'000));
  REQUIRE(hits.size() == 1'000);
  for (const Hit& hit : hits) CHECK(hit.message > 3'000);
}

TEST_CASE("a search does not wait for the store, and only the last one is told") {
  infer::test::TempDir folder;
  AsyncStore store(folder.path("c.db"), {});
  bool added = false;
  store.call(
      [](Store& s) { return s.add(must(s.create(titled("t"))).id, from_user(0, "zanzibar")); },
      [&](const Result<Message>& message) { added = message.has_value(); });
  poll_until(store, [&] { return added; });
  std::atomic<bool> holds = true;
  store.call(
      [&](Store&) -> Status {  // the store is busy
        while (holds) std::this_thread::sleep_for(1ms);
        return {};
      },
      [](const Status&) {});
  int told = 0;
  std::optional<size_t> found;
  for (const char* query : {"z", "za", "zan"}) {
    store.search(query, 100ms, [&](const Result<std::vector<Hit>>& hits) {
      ++told;
      found = must(hits).size();
    });
  }
  poll_until(store, [&] { return found.has_value(); });
  CHECK(*found == 1);
  CHECK(told == 1);
  holds = false;
}

TEST_CASE("without a file the store itself searches") {
  AsyncOptions options;
  options.in_memory_otherwise = true;
  AsyncStore store("/proc/none/c.db", options);
  store.call([](Store& s) { return s.create(titled("zanzibar")); },
             [](const Result<Conversation>&) {});
  std::optional<size_t> found;
  store.search("zan", 0ms,
               [&](const Result<std::vector<Hit>>& hits) { found = must(hits).size(); });
  poll_until(store, [&] { return found.has_value(); });
  CHECK(*found == 1);
}

TEST_CASE("a search that is to end ends") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  {
    const std::unique_ptr<Store> store = open_store(path);
    ImportedConversation many;
    for (Id i = 1; i <= 3'000; ++i) {
      Message message;
      message.id = i;
      message.text = "word";
      many.messages.push_back(message);
    }
    must(store->add_imported(many));
  }
  const std::unique_ptr<Database> reader = must(Database::open_reader(path, 0));
  const std::atomic<bool> stops = true;
  reader->stop_if(&stops);
  for (const char* query : {"word", "wo", "w"}) {
    CHECK(search_in(*reader, query, 50).error().code() == StatusCode::cancelled);
  }
}

}  // namespace
}  // namespace infer::conversations::test
