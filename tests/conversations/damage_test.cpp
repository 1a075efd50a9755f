// Files with wrong bytes: opening never crashes, says what happened, and keeps the damaged file.
#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

namespace fs = std::filesystem;

constexpr int kConversations = 8, kMessages = 12;

std::string text_of(int conversation, int message) {
  return "text " + std::to_string(conversation) + " " + std::to_string(message) + " " +
         std::string(400, static_cast<char>('a' + message));
}

/// Some pages of conversations. Returns the bytes of the file.
std::string make_file(const std::string& path) {
  {
    const std::unique_ptr<Store> store = open_store(path);
    must(store->together([&]() -> Status {
      for (int c = 0; c < kConversations; ++c) {
        const Id id = must(store->create(titled("title " + std::to_string(c)))).id;
        Id parent = 0;
        for (int m = 0; m < kMessages; ++m) {
          parent = must(store->add(id, from_user(parent, text_of(c, m)))).id;
        }
      }
      return store->save_preset({"preset", "system", "{}"});
    }));
  }
  CHECK_FALSE(fs::exists(path + "-wal"));
  return infer::test::read_text(path);
}

void write_file(const std::string& path, const std::string& bytes) {
  for (const char* end : {"", "-wal", "-shm"}) fs::remove(path + end);
  infer::test::write_bytes(path, infer::test::bytes_of(bytes));
}

/// Reads and changes all that can be.
void use(Store& store) {
  const Result<std::vector<Conversation>> all = store.list();
  if (all) {
    for (const Conversation& conversation : *all) {
      const Result<Tree> tree = store.load(conversation.id);
      if (!tree) {
        CHECK(tree.error().message().starts_with(store.path()));
        continue;
      }
      tree->shown();
      const std::vector<Message>& messages = tree->messages();
      if (!messages.empty()) {
        static_cast<void>(store.edit(messages.back().id, "edited").has_value());
        static_cast<void>(store.append(messages.front().id, "more", "").ok());
        static_cast<void>(store.finish(messages.front().id, {}).ok());
      }
      static_cast<void>(store.move_to_trash(conversation.id).ok());
    }
  }
  static_cast<void>(store.search("text").has_value());
  static_cast<void>(store.presets().has_value());
  static_cast<void>(store.empty_trash(std::numeric_limits<Time>::max()).has_value());
}

TEST_CASE("bytes that change anywhere in the file never crash, and what is wrong is said") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string good = make_file(path);
  std::mt19937 random(3);
  int set_aside = 0, refused = 0, unnoticed = 0;
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    std::string bytes = good;
    // The first page and the beginnings of pages are worth more than the texts.
    const size_t page = random() % (bytes.size() / 4096) * 4096;
    const size_t from = i % 3 == 0 ? 0 : i % 3 == 1 ? page : random() % bytes.size();
    const size_t range = i % 3 == 0 ? 200 : i % 3 == 1 ? 32 : 1;
    for (int flips = i % 5 + 1; flips > 0; --flips) {
      bytes[std::min(from + random() % range, bytes.size() - 1)] ^=
          static_cast<char>(1 + random() % 255);
    }
    write_file(path, bytes);
    OpenReport report;
    const Result<std::unique_ptr<Store>> store = Store::open(path, &report);
    if (!store) {
      ++refused;
      CHECK_MESSAGE(store.error().code() == StatusCode::unsupported, store.error().message());
      CHECK(store.error().message().starts_with(path));
      continue;
    }
    if (report.set_aside.empty()) {
      ++unnoticed;
      CHECK(report.damage.empty());
    } else {
      ++set_aside;
      CHECK(report.damage.starts_with(path));
      CHECK(infer::test::read_text(report.set_aside) == bytes);
      fs::remove(report.set_aside);
    }
    use(**store);
  }
  CHECK(set_aside > 20);
  MESSAGE("set aside " << set_aside << ", refused " << refused << ", unnoticed " << unnoticed);
}

TEST_CASE("a file that is cut off is set aside") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string good = make_file(path);
  for (const size_t size : {good.size() / 2, good.size() - 4096, size_t{4096}, size_t{100}}) {
    CAPTURE(size);
    write_file(path, good.substr(0, size));
    OpenReport report;
    const std::unique_ptr<Store> store = open_store(path, &report);
    CHECK_FALSE(report.set_aside.empty());
    use(*store);
  }
  write_file(path, "this is a text of mine, which has nothing to do with conversations\n");
  OpenReport report;
  const std::unique_ptr<Store> store = open_store(path, &report);
  CHECK(infer::test::read_text(report.set_aside).starts_with("this is a text of mine"));
  CHECK(must(store->list()).empty());
}

TEST_CASE("of a file with a damaged page all other pages are recovered") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  std::string bytes = make_file(path);
  // A page that holds texts of messages: near the one with this text.
  const size_t at = bytes.find("text 4 5") / 4096 * 4096;
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 64, '\xff');
  write_file(path, bytes);
  OpenReport report;
  std::unique_ptr<Store> store = open_store(path, &report);
  CHECK(fs::exists(report.set_aside));
  CHECK(report.damage.find("damaged") != std::string::npos);
  CHECK(report.recovered_conversations == kConversations);
  CHECK(report.recovered_messages >= kConversations * kMessages - 24);
  CHECK(report.recovered_messages < kConversations * kMessages);
  int64_t messages = 0;
  for (const Conversation& conversation : must(store->list())) {
    const Tree tree = must(store->load(conversation.id));
    CHECK(conversation.title == "title " + std::to_string(conversation.id - 1));
    for (const Message& message : tree.messages()) {
      const int number = static_cast<int>(message.id - 1);
      CHECK(message.text == text_of(number / kMessages, number % kMessages));
      ++messages;
    }
  }
  CHECK(messages == report.recovered_messages);
  CHECK(must(store->presets()).size() == 1);
  CHECK(must(store->search("text", 1'000)).size() == static_cast<size_t>(messages));
  store.reset();
  store = open_store(path, &report);  // now it is sound
  CHECK(report.set_aside.empty());
  CHECK(must(store->list()).size() == kConversations);
}

TEST_CASE("an index that does not fit its table is noticed in use and repaired at the next start") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  make_file(path);
  // A row disappears while the schema does not name the index. Each step is a connection of its
  // own.
  std::string sql =
      "PRAGMA writable_schema = ON; CREATE TABLE kept AS SELECT * FROM sqlite_schema "
      "WHERE name = 'messages_of_conversation'; DELETE FROM sqlite_schema WHERE name "
      "= 'messages_of_conversation'";
  for (const char* step :
       {sql.c_str(), "DELETE FROM messages WHERE id = 20",
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM kept",
        "DROP TABLE kept"}) {
    sqlite3* handle = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
    REQUIRE(sqlite3_exec(handle, step, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(handle);
  }
  OpenReport report;
  {
    const std::unique_ptr<Store> store = open_store(path, &report);
    REQUIRE(report.set_aside.empty());
    const Result<Tree> tree = store->load(2);
    REQUIRE_FALSE(tree);
    CHECK(tree.error().message().find("when the program starts again") != std::string::npos);
  }
  const std::unique_ptr<Store> store = open_store(path, &report);
  CHECK(fs::exists(report.set_aside));
  CHECK(report.recovered_messages == kConversations * kMessages - 1);
  CHECK(must(store->load(2)).messages().size() == kMessages - 1);
  CHECK_FALSE(fs::exists(path + ".doubt"));
}

TEST_CASE("only the user can read the files after a recovery") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  fs::resize_file(path, make_file(path).size() / 2);
  OpenReport report;
  const mode_t before = umask(022);
  const std::unique_ptr<Store> store = open_store(path, &report);
  umask(before);
  REQUIRE_FALSE(report.set_aside.empty());
  use(*store);
  for (const std::string& name :
       {path, path + "-wal", path + "-shm", path + ".lock", report.set_aside}) {
    const fs::perms rights = fs::status(name).permissions();
    CHECK_MESSAGE(rights == (fs::perms::owner_read | fs::perms::owner_write), name);
  }
}

TEST_CASE("recovery finds a place for messages whose conversation is lost") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  make_file(path);
  {
    const std::unique_ptr<Database> database = must(Database::open(path, 0));
    must(
        database->execute("PRAGMA foreign_keys = OFF; DROP TRIGGER conversation_removed;"
                          "DELETE FROM conversations WHERE id = 3; UPDATE messages SET state = "
                          "'writing' WHERE id = 5;"
                          "UPDATE conversations SET settings = 'x' WHERE id = 1"));
  }
  OpenReport report;
  const std::unique_ptr<Store> store = open_store(path, &report);
  CHECK(report.damage.find("conversation_removed") != std::string::npos);
  CHECK(must(store->conversation(3)).title == "Recovered");
  CHECK(must(store->load(3)).messages().size() == kMessages);
  CHECK(must(store->conversation(1)).settings == "{}");
  CHECK(must(store->load(1)).find(5)->state == State::stopped);
}

TEST_CASE("wrong values in sound tables are put right while they are read") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::unique_ptr<Store> store = open_store(path);
  const Id id = must(store->create(titled("t"))).id;
  must(store->add(id, from_user(0, "a")));
  must(store->add(id, from_user(1, "b")));
  const std::unique_ptr<Database> database = must(Database::open(path, 0));
  must(database->execute(
      "PRAGMA ignore_check_constraints = 1;"
      "UPDATE messages SET parent = 2, role = 'king', state = 'odd', text = CAST(X'61FF' AS TEXT),"
      "  tool_calls = '[[[[1', generate_rate = 9e999 WHERE id = 1;"
      "UPDATE conversations SET settings = '[1]', title = CAST(X'80' AS TEXT)"));
  const Tree tree = must(store->load(id));
  CHECK(tree.conversation().settings == "{}");
  CHECK(tree.conversation().title == "\xEF\xBF\xBD");
  const Message& first = tree.messages()[0];
  CHECK(first.parent == 0);
  CHECK(first.role == Role::user);
  CHECK(first.state == State::complete);
  CHECK(first.text == "a\xEF\xBF\xBD");
  CHECK(first.tool_calls.empty());
  CHECK(first.statistics.generate_rate == 0);
}

TEST_CASE("a file with a trigger that is not the store's is set aside") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  make_file(path);
  {
    const std::unique_ptr<Database> database = must(Database::open(path, 0));
    must(
        database->execute("CREATE TRIGGER evil AFTER INSERT ON messages BEGIN "
                          "DELETE FROM conversations; END"));
  }
  OpenReport report;
  const std::unique_ptr<Store> store = open_store(path, &report);
  CHECK(report.damage.find("evil") != std::string::npos);
  CHECK(report.recovered_messages == kConversations * kMessages);
}

TEST_CASE("a damaged search index is built again") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  make_file(path);
  const auto damage = [&] {
    sqlite3* handle = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
    CHECK(sqlite3_exec(handle, "UPDATE search_data SET block = X'0102030405' WHERE id > 10",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(handle);
  };
  damage();
  {
    OpenReport report;
    const std::unique_ptr<Store> store = open_store(path, &report);
    CHECK(report.set_aside.empty());
    CHECK(must(store->search("text", 1'000)).size() == kConversations * kMessages);
  }
  damage();
  const std::unique_ptr<Store> store = open_store(path);
  for (int i = 0; i < 40; ++i) must(store->add(1, from_user(0, "more text")));
  must(store->move_to_trash(2));
  must(store->empty_trash(std::numeric_limits<Time>::max()));
  CHECK(must(store->search("more")).size() == 40);
}

TEST_CASE("a damaged file that another process has open is left in its place") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string good = make_file(path);
  const auto check_refused = [&] {
    OpenReport report;
    const Result<std::unique_ptr<Store>> opened = Store::open(path, &report, {.busy_ms = 10});
    REQUIRE_FALSE(opened.has_value());
    CHECK_MESSAGE(opened.error().code() == StatusCode::busy, opened.error().message());
    CHECK(report.set_aside.empty());
  };
  // In the same file, which is open.
  const auto overwrite = [&](const std::string& bytes) {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  };
  {
    const std::unique_ptr<Store> other = open_store(path);
    CHECK(must(other->list()).size() == kConversations);
    const std::string header = infer::test::read_text(path).substr(0, 100);
    overwrite(std::string(100, 'x'));
    check_refused();
    overwrite(header);
    CHECK(must(other->list()).size() == kConversations);
  }
  // A program that only knows SQLite.
  const std::unique_ptr<Database> database = must(Database::open(path, 0));
  must(database->execute("DROP TRIGGER conversation_renamed"));
  check_refused();
}

TEST_CASE("what is in the log is recovered too, and the log is kept with the damaged file") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db"), killed = folder.path("killed.db");
  make_file(path);
  const std::unique_ptr<Store> store = open_store(path);
  must(store->create(titled("only in the log")));
  for (const char* end : {"", "-wal"}) fs::copy_file(path + end, killed + end);
  std::string bytes = infer::test::read_text(killed);
  const size_t at = bytes.find("text 4 5") / 4096 * 4096;
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 64, '\xff');
  infer::test::write_bytes(killed, infer::test::bytes_of(bytes));
  const std::string log = infer::test::read_text(killed + "-wal");
  OpenReport report;
  const std::unique_ptr<Store> recovered = open_store(killed, &report);
  CHECK(must(recovered->search("only in the log")).size() == 1);
  CHECK(infer::test::read_text(report.set_aside) == bytes);
  CHECK(infer::test::read_text(report.set_aside + "-wal") == log);
}

TEST_CASE("a recovery whose process ended is completed") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  make_file(path);
  fs::rename(path, path + ".recovered");
  CHECK(must(open_store(path)->list()).size() == kConversations);
  CHECK_FALSE(fs::exists(path + ".recovered"));
  // One that ended before has no use.
  infer::test::write_bytes(path + ".recovered", infer::test::bytes_of("half"));
  write_file(path, "damaged");
  OpenReport report;
  CHECK(must(open_store(path, &report)->list()).empty());
  CHECK_FALSE(report.set_aside.empty());
}

TEST_CASE("a recovery that ended between its moves loses nothing, and is told") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string good = make_file(path);
  const std::string plan =
      R"({"set_aside": "c.db.damaged-1", "damage": "bad", "conversations": 8, "messages": 96})";
  // How many of the three files have been moved.
  for (int moved = 0; moved <= 3; ++moved) {
    CAPTURE(moved);
    for (const char* end : {".damaged-1", ".damaged-1-wal"}) fs::remove(path + end);
    write_file(path, "damaged");
    infer::test::write_bytes(path + "-wal", infer::test::bytes_of("log"));
    infer::test::write_bytes(path + ".recovered", infer::test::bytes_of(good));
    infer::test::write_bytes(path + ".recovery", infer::test::bytes_of(plan));
    if (moved > 0) fs::rename(path + "-wal", path + ".damaged-1-wal");
    if (moved > 1) fs::rename(path, path + ".damaged-1");
    if (moved > 2) fs::rename(path + ".recovered", path);
    OpenReport report;
    CHECK(must(open_store(path, &report)->list()).size() == kConversations);
    CHECK(report.damage == "bad");
    CHECK(report.recovered_messages == 96);
    CHECK(report.set_aside == path + ".damaged-1");
    CHECK(infer::test::read_text(path + ".damaged-1") == "damaged");
    CHECK(infer::test::read_text(path + ".damaged-1-wal") == "log");
    CHECK_FALSE(fs::exists(path + ".recovered"));
    CHECK_FALSE(fs::exists(path + ".recovery"));
    OpenReport next;
    CHECK(must(open_store(path, &next)->list()).size() == kConversations);
    CHECK(next.damage.empty());
  }
  // A plan that was not written to its end: nothing has been moved.
  for (const char* half :
       {"", "{\"set_aside\": \"c.d", R"({"set_aside": "../c.db", "damage": ""})"}) {
    CAPTURE(half);
    write_file(path, good);
    infer::test::write_bytes(path + ".recovered", infer::test::bytes_of("half"));
    infer::test::write_bytes(path + ".recovery", infer::test::bytes_of(half));
    OpenReport report;
    CHECK(must(open_store(path, &report)->list()).size() == kConversations);
    CHECK(report.damage.empty());
    CHECK_FALSE(fs::exists(path + ".recovery"));
  }
}

TEST_CASE("a recovery whose files cannot be moved is an error, and is completed later") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::string good = make_file(path);
  write_file(path, "damaged");
  infer::test::write_bytes(path + ".recovered", infer::test::bytes_of(good));
  infer::test::write_bytes(path + ".recovery",
                           infer::test::bytes_of(R"({"set_aside": "taken", "damage": "bad"})"));
  fs::create_directories(folder.path("taken") + "/full");
  CHECK(Store::open(path, nullptr).error().code() == StatusCode::io);
  CHECK(infer::test::read_text(path) == "damaged");
  fs::remove_all(folder.path("taken"));
  CHECK(must(open_store(path)->list()).size() == kConversations);
}

}  // namespace
}  // namespace infer::conversations::test
