// Imports in parts: what else uses the store goes on, and an import is all there or not at all.
#include <chrono>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include "conversations/import_queue.h"
#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

using namespace std::chrono_literals;

/// One conversation of so many messages with a kilobyte of words each.
ImportedConversation long_conversation(int messages) {
  ImportedConversation imported;
  imported.conversation = titled("imported");
  for (int i = 1; i <= messages; ++i) {
    Message message;
    message.id = i;
    message.parent = i - 1;
    for (int word = 0; word < 150; ++word) message.text += "word" + std::to_string(i * word) + " ";
    imported.messages.push_back(message);
  }
  return imported;
}

std::string write_file(const infer::test::TempDir& folder, int conversations, int messages) {
  const std::string path = folder.path("file.json");
  std::ofstream out(path);
  out << R"({"format":"infer-conversations","version":1,"conversations":[)";
  const ImportedConversation imported = long_conversation(messages);
  for (int i = 0; i < conversations; ++i) {
    out << (i == 0 ? "" : ",") << R"({"title":"imported","messages":[)";
    for (const Message& m : imported.messages) {
      out << (m.id == 1 ? "" : ",") << R"({"id":)" << m.id
          << R"(,"role":"user","state":"complete","text":")" << m.text << "\"}";
    }
    out << "]}";
  }
  out << "]}";
  return path;
}

int64_t count(const std::string& path, const char* table) {
  return must(
      must(Database::open(path, 1000))->integer(std::string("SELECT count(*) FROM ") + table));
}

TEST_CASE("while a file is imported texts are saved and calls are answered, and nothing is seen") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string file = write_file(folder, 20, 200);
  AsyncOptions options;
  options.save_every = 5ms;
  AsyncStore store(path, options);
  std::optional<Result<ImportReport>> report;
  ImportQueue imports(store, [&](const Result<ImportReport>& told) { report = told; });
  Id answer = 0;
  store.call(
      [&](Store& s) -> Status {
        NewMessage wanted = from_assistant(0, "");
        wanted.state = State::writing;
        answer = must(s.add(must(s.create(titled("mine"))).id, wanted)).id;
        return {};
      },
      [](const Status&) {});
  imports.add(file);
  poll_until(store, [&] { return imports.progress() && imports.progress()->share > 0; });
  CHECK(imports.progress()->path == file);
  int calls = 0;  // that were answered while the import went on
  std::string text;
  while (!report) {
    store.append(answer, "x", "");
    text += "x";
    bool answered = false;
    store.call([](Store& s) { return s.list(); },
               [&](const Result<std::vector<Conversation>>& all) {
                 answered = true;
                 const size_t seen = must(all).size();
                 CHECK((seen == 1 || seen == 21));
                 calls += seen == 1 ? 1 : 0;
               });
    poll_until(store, [&] { return answered || report.has_value(); });
  }
  CHECK(must(*report).conversations == 20);
  CHECK(must(*report).messages == 4'000);
  CHECK(calls > 0);
  CHECK_FALSE(imports.progress().has_value());
  std::optional<size_t> found;
  store.call([](Store& s) { return s.search("word0"); },
             [&](const Result<std::vector<Hit>>& hits) { found = must(hits).size(); });
  poll_until(store, [&] { return found.has_value(); });
  CHECK(*found == 50);
  std::optional<std::string> saved;
  store.call([](Store& s) { return s.load(1); },
             [&](const Result<Tree>& tree) { saved = must(tree).find(answer)->text; });
  poll_until(store, [&] { return saved.has_value(); });
  CHECK(*saved == text);
}

TEST_CASE("a cancelled import leaves nothing, and those that wait are dropped") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string file = write_file(folder, 20, 200);
  for (const bool ends : {false, true}) {
    CAPTURE(ends);
    std::optional<Result<ImportReport>> report;
    AsyncStore store(path, {});
    {
      ImportQueue imports(store, [&](const Result<ImportReport>& told) { report = told; });
      imports.add(file);
      imports.add(file);
      poll_until(store, [&] { return imports.progress() && imports.progress()->share > 0.3; });
      if (!ends) {
        imports.cancel();
        poll_until(store, [&] { return report.has_value(); });
        CHECK(report->error().code() == StatusCode::cancelled);
        CHECK_FALSE(imports.progress().has_value());
      }
    }
    std::optional<size_t> seen;
    store.call(
        [](Store& s) -> Result<size_t> {
          return must(s.list()).size() + must(s.trash()).size() + must(s.search("word0")).size();
        },
        [&](const Result<size_t>& all) { seen = must(all); });
    poll_until(store, [&] { return seen.has_value(); });
    CHECK(*seen == 0);
    poll_until(store, [&] { return count(path, "conversations") == 0; });
    CHECK(count(path, "messages") == 0);
  }
}

TEST_CASE("an import whose process ended is not seen, and is deleted after the next opening") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::vector<ImportedConversation> all = {long_conversation(10), long_conversation(200)};
  {
    const std::unique_ptr<Store> store = open_store(path);
    must(store->create(titled("mine")));
    const Time mark = store->begin_import();
    CHECK(mark != store->begin_import());
    ImportPlace place;
    while (place.message < 100) must(store->import_part(mark, all, place, 0ms));
    CHECK(place.conversation == 1);
    CHECK(must(store->empty_trash(std::numeric_limits<Time>::max())) == 0);
    // Another process that opens the file lets it go on.
    CHECK_FALSE(open_store(path)->needs_cleaning());
    CHECK(count(path, "messages") > 100);
  }
  const std::unique_ptr<Store> store = open_store(path);
  CHECK(must(store->list()).size() == 1);
  CHECK(must(store->trash()).empty());
  CHECK(must(store->search("imported")).empty());
  CHECK(must(store->search("word0")).empty());
  CHECK(must(store->empty_trash(std::numeric_limits<Time>::max())) == 0);
  int parts = 0;
  for (; store->needs_cleaning(); ++parts) must(store->clean(0ms));
  CHECK(parts > 10);
  CHECK(count(path, "messages") == 0);
  CHECK(count(path, "conversations") == 1);
}

TEST_CASE("an import that another process has ended says so") {
  infer::test::TempDir folder;
  const std::unique_ptr<Store> store = open_store(folder.path("c.db"));
  const Time mark = store->begin_import();
  const std::vector<ImportedConversation> all = {long_conversation(1)};
  ImportPlace place;
  must(store->import_part(mark, all, place, 1h));
  must(store->abandon_import(mark));
  CHECK(store->show_import(mark, 1, {}).code() == StatusCode::io);
  CHECK(must(store->list()).empty());
}

TEST_CASE_FIXTURE(Fixture, "an imported message is written once, with its ids") {
  ImportedConversation imported = long_conversation(3);
  imported.messages[2].parent = 1;
  imported.messages[0].selected_child = 2;
  imported.conversation.selected_root = 1;
  must(store->add(must(store->create(titled("t"))).id, from_user(0, "before")));
  const Tree tree = must(store->load(must(store->add_imported(imported))));
  REQUIRE(tree.messages().size() == 3);
  CHECK(tree.shown() == std::vector<Id>{2, 3});
  CHECK(must(store->add(1, from_user(0, "after"))).id == 5);
}

}  // namespace
}  // namespace infer::conversations::test
