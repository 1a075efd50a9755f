// Every call to the system that may fail fails once: full disk, read-only files, locks.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <limits>
#include <thread>

#include "conversations/schema.h"
#include "tests/conversations/failing_vfs.h"
#include "tests/conversations/full_disk.h"
#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// A message names the file and is a sentence about what to do.
void check_message(const Status& status, const std::string& path) {
  CHECK_MESSAGE(status.message().find(path) != std::string::npos, status.message());
  CHECK(status.message().size() > path.size() + 20);
}

TEST_CASE("whichever call to the system fails: a typed error, and all or nothing is kept") {
  infer::test::TempDir folder;
  const std::string prepared = folder.path("prepared.db");
  Id conversation = 0, first = 0;
  {
    const std::unique_ptr<Store> store = open_store(prepared);
    conversation = must(store->create(titled("t"))).id;
    first = must(store->add(conversation, from_user(0, "first"))).id;
  }
  FailingVfs vfs;
  for (const int failure : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    int64_t calls = 0;
    // First without a failure: that counts the calls.
    for (int64_t failing = 0; failing <= calls; ++failing) {
      CAPTURE(failing);
      const std::string path = folder.path(fmt::format("{}-{}.db", failure, failing));
      fs::copy_file(prepared, path);
      vfs.fail_at(failing == 0 ? kNever : failing, failure);
      Status failed;
      bool is_added = false, is_appended = false;
      const auto note = [&](const Status& status) {
        if (!status.ok()) failed = status;
        return status.ok();
      };
      OpenReport report;
      Result<std::unique_ptr<Store>> store = Store::open(path, &report, {.busy_ms = 0});
      if (store) {
        const Result<Message> added =
            (*store)->add(conversation, from_assistant(first, std::string(20'000, 'a')));
        is_added = note(added ? Status() : added.error());
        if (is_added) is_appended = note((*store)->append(added->id, "b", ""));
        store->reset();
      } else {
        note(store.error());
      }
      if (failing == 0) calls = vfs.calls();
      CHECK((failing == 0 || !failed.ok() || is_appended));
      vfs.stop();
      if (!failed.ok()) {
        CHECK_MESSAGE(failed.code() == StatusCode::io, failed.message());
        check_message(failed, path);
      }
      CHECK(report.set_aside.empty());
      // Works again, and what was acknowledged is there.
      const std::unique_ptr<Store> again = open_store(path, &report);
      CHECK(report.set_aside.empty());
      const Tree tree = must(again->load(conversation));
      REQUIRE(tree.find(first) != nullptr);
      const Texts texts = shown_texts(tree);
      CHECK(texts.size() <= 2);
      if (is_added) {
        REQUIRE(texts.size() == 2);
        CHECK(texts[1].substr(0, 20'000) == std::string(20'000, 'a'));
        if (is_appended) CHECK(texts[1].ends_with("ab"));
      } else if (texts.size() == 2) {
        // The commit failed after it was written: as a whole.
        CHECK(texts[1] == std::string(20'000, 'a'));
      }
      CHECK(must(again->search("first")).size() == 1);
    }
    CHECK(calls > 20);
  }
}

TEST_CASE("a call that reads and fails is an error of the disk, not a damaged file") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  {
    const std::unique_ptr<Store> store = open_store(path);
    for (int i = 0; i < 5; ++i) must(store->create(titled(std::to_string(i))));
  }
  FailingVfs vfs;
  int64_t calls = 0;
  for (int64_t failing = 0; failing <= calls; ++failing) {
    CAPTURE(failing);
    vfs.fail_read_at(failing == 0 ? kNever : failing);
    OpenReport report;
    const Result<std::unique_ptr<Store>> store = Store::open(path, &report);
    Status failed = store ? Status() : store.error();
    if (store) {
      const Result<std::vector<Conversation>> all = (*store)->list();
      if (!all) failed = all.error();
      if (all) CHECK(all->size() == 5);
    }
    if (failing == 0) calls = vfs.calls();
    vfs.stop();
    CHECK(report.set_aside.empty());
    if (!failed.ok()) {
      CHECK_MESSAGE(failed.code() == StatusCode::io, failed.message());
      check_message(failed, path);
    }
  }
  CHECK(calls > 10);
  CHECK(must(open_store(path)->list()).size() == 5);
}

TEST_CASE("a damaged file stays in its place if there is no space to repair it") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  {
    const std::unique_ptr<Store> store = open_store(path);
    must(store->create(titled("t")));
  }
  {
    const std::unique_ptr<Database> database = must(Database::open(path, 0));
    must(database->execute("PRAGMA journal_mode = DELETE; DROP TRIGGER conversation_renamed"));
  }
  const std::string damaged = infer::test::read_text(path);
  FailingVfs vfs;
  int64_t calls = 0;
  for (int64_t failing = 0; failing <= calls; ++failing) {
    CAPTURE(failing);
    infer::test::write_bytes(path, infer::test::bytes_of(damaged));
    vfs.fail_at(failing == 0 ? kNever : failing, SQLITE_FULL);
    OpenReport report;
    const Result<std::unique_ptr<Store>> store = Store::open(path, &report);
    if (failing == 0) calls = vfs.calls();
    vfs.stop();
    if (!store) {
      CHECK_MESSAGE(store.error().code() == StatusCode::io, store.error().message());
    }
    // Later there is space, and everything is there.
    CHECK(must(open_store(path)->list()).size() == 1);
  }
  CHECK(calls > 20);
}

TEST_CASE("what was acknowledged has been handed to the disk") {
  infer::test::TempDir folder;
  FailingVfs vfs;
  const std::unique_ptr<Store> store = open_store(folder.path("c.db"));
  const Id id = must(store->create(titled("t"))).id;
  const Id message = must(store->add(id, from_user(0, "x"))).id;
  const auto check = [&](const auto& work) {
    vfs.fail_at(kNever, SQLITE_FULL);
    must(work());
    CHECK(vfs.syncs() > 0);
  };
  check([&] { return store->add(id, from_user(0, "y")); });
  check([&] { return store->append(message, "z", ""); });
  check([&] { return store->finish(message, {}); });
  check([&] { return store->rename(id, "u"); });
  check([&] { return store->move_to_trash(id); });
}

TEST_CASE("several processes write at once") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const Result<std::unique_ptr<Store>> store = Store::open(path, nullptr, {.busy_ms = 60'000});
      if (!store) {
        ++failures;
        return;
      }
      for (int i = 0; i < 30; ++i) failures += (*store)->create(titled("t")).has_value() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(must(open_store(path)->list()).size() == 90);
}

TEST_CASE("a limit of the file's size is a typed error") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::unique_ptr<Store> store = open_store(path);
  const Id id = must(store->create(titled("t"))).id;
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {1 << 20, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const Result<Message> failed = store->add(id, from_user(0, std::string(3 << 20, 'a')));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code() == StatusCode::io);
  check_message(failed.error(), path);
  must(store->add(id, from_user(0, std::string(3 << 20, 'a'))));
  CHECK(must(store->load(id)).messages().size() == 1);
}

TEST_CASE("folders and files that cannot be written are typed errors") {
  infer::test::TempDir folder;
  const std::string path = folder.path("sub/c.db");
  { must(open_store(path)->create(titled("t"))); }
  const bool is_root = geteuid() == 0;
  // Permissions do not hold for root.
  if (is_root) REQUIRE(seteuid(65534) == 0);
  Result<std::unique_ptr<Store>> opened = Store::open(path, nullptr);
  if (is_root) {
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code() == StatusCode::io);
    check_message(opened.error(), folder.path("sub"));
  }
  opened = Store::open("/proc/none/c.db", nullptr);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code() == StatusCode::io);
  check_message(opened.error(), "/proc/none");
  if (is_root) REQUIRE(seteuid(0) == 0);
  opened = Store::open(folder.path("sub"), nullptr);  // a folder
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code() == StatusCode::io);
  opened = Store::open(path + "/c.db", nullptr);  // below a file
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code() == StatusCode::io);
}

TEST_CASE("a file that is read-only can be read; writing is a typed error") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  { must(open_store(path)->create(titled("t"))); }
  FailingVfs vfs;
  vfs.read_only();
  const std::unique_ptr<Store> store = open_store(path);
  CHECK(must(store->list()).size() == 1);  // reading works
  const Status failed = store->rename(1, "u");
  CHECK(failed.code() == StatusCode::io);
  CHECK_MESSAGE(failed.message().find("read-only") != std::string::npos, failed.message());
  check_message(failed, path);
}

/// A file with a conversation; the second one is in the log alone.
std::string file_with_log(const infer::test::TempDir& folder) {
  const std::string path = folder.path("a/c.db");
  const std::string copy = folder.path("b#1?/c%41.db");
  { must(open_store(path)->create(titled("first"))); }
  const std::unique_ptr<Store> store = open_store(path);
  must(store->create(titled("second")));
  fs::create_directory(fs::path(copy).parent_path());
  for (const char* end : {"", "-wal"}) fs::copy_file(path + end, copy + end);
  return copy;
}

TEST_CASE("a file on a full disk is read into memory, with its log") {
  infer::test::TempDir folder;
  const std::string path = file_with_log(folder);
  Result<std::unique_ptr<Store>> refused = tl::unexpected(Status());
  Result<std::unique_ptr<Store>> opened = tl::unexpected(Status());
  {
    const FullDisk full;
    refused = Store::open(path, nullptr);
    opened = Store::open_in_memory(path);
  }
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == StatusCode::io);
  const std::unique_ptr<Store> store = must(std::move(opened));
  CHECK(must(store->list()).size() == 2);
  must(store->rename(1, "changed"));
  const Id added = must(store->create(titled("third"))).id;
  must(store->add(added, from_user(0, "a word")));
  CHECK(must(store->search("word")).size() == 1);
  const std::unique_ptr<Store> file = open_store(path);
  CHECK(must(file->list()).size() == 2);
  CHECK(must(file->conversation(1)).title == "first");
}

TEST_CASE("a file that may only be read is read into memory, if its log is empty") {
  infer::test::TempDir folder;
  const std::string path = file_with_log(folder);
  const fs::path parent = fs::path(path).parent_path();
  const auto in_memory = [&] {
    const bool is_root = geteuid() == 0;  // permissions do not hold for root
    fs::permissions(folder.path(""), fs::perms(0755));
    fs::permissions(parent, fs::perms(0555));
    for (const auto& entry : fs::directory_iterator(parent)) {
      fs::permissions(entry, fs::perms(0444));
    }
    if (is_root) REQUIRE(seteuid(65534) == 0);
    CHECK_FALSE(Store::open(path, nullptr).has_value());
    Result<std::unique_ptr<Store>> opened = Store::open_in_memory(path);
    if (is_root) REQUIRE(seteuid(0) == 0);
    fs::permissions(parent, fs::perms(0755));
    for (const auto& entry : fs::directory_iterator(parent)) {
      fs::permissions(entry, fs::perms(0644));
    }
    return must(std::move(opened));
  };
  CHECK(must(in_memory()->list()).empty());  // what the file has may be half of a change
  { open_store(path); }                      // writes the log into the file
  CHECK(must(in_memory()->list()).size() == 2);
}

TEST_CASE("a store in memory needs no file") {
  infer::test::TempDir folder;
  const std::string path = folder.path("none/c.db");
  const std::unique_ptr<Store> store = must(Store::open_in_memory(path));
  CHECK(must(store->create(titled("t"))).id == 1);
  CHECK_FALSE(fs::exists(folder.path("none")));
}

TEST_CASE("a file that another program has locked is busy, and works again later") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  const std::unique_ptr<Store> store = must(Store::open(path, nullptr, {.busy_ms = 20}));
  const Id id = must(store->create(titled("t"))).id;
  const std::unique_ptr<Database> other = must(Database::open(path, 0));
  must(other->execute("BEGIN IMMEDIATE"));
  const Status busy = store->rename(id, "u");
  CHECK(busy.code() == StatusCode::busy);
  check_message(busy, path);
  CHECK(must(store->list()).size() == 1);  // reading goes on
  must(other->execute("COMMIT"));
  must(store->rename(id, "u"));
}

TEST_CASE("a file that another program has for itself cannot be opened") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  { must(open_store(path)->create(titled("t"))); }
  const std::unique_ptr<Database> other = must(Database::open(path, 0));
  must(other->execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT"));
  must(other->integer("SELECT count(*) FROM conversations"));
  const Result<std::unique_ptr<Store>> opened = Store::open(path, nullptr, {.busy_ms = 20});
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code() == StatusCode::busy);
}

TEST_CASE("files of newer versions and of other programs are refused and stay as they are") {
  infer::test::TempDir folder;
  const std::string newer = folder.path("newer.db"), foreign = folder.path("foreign.db");
  { must(open_store(newer)->create(titled("t"))); }
  { must(must(Database::open(newer, 0))->execute("PRAGMA user_version = 999")); }
  {
    const std::unique_ptr<Database> other = must(Database::open(foreign, 0));
    must(other->execute("CREATE TABLE bookmarks(url TEXT)"));
  }
  for (const std::string& path : {newer, foreign}) {
    const std::string before = infer::test::read_text(path);
    const Result<std::unique_ptr<Store>> opened = Store::open(path, nullptr);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code() == StatusCode::unsupported);
    check_message(opened.error(), path);
    CHECK(infer::test::read_text(path) == before);
  }
  CHECK(Store::open(newer, nullptr).error().message().find("999") != std::string::npos);
}

TEST_CASE("migrations run in order, all or none") {
  infer::test::TempDir folder;
  const char* const steps[] = {"CREATE TABLE a(x)", "ALTER TABLE a ADD COLUMN y",
                               "INSERT INTO a VALUES (1, 2)"};
  const std::unique_ptr<Database> database = must(Database::open(folder.path("m.db"), 0));
  must(migrate(*database, {steps, 1}));
  CHECK(must(database->integer("PRAGMA user_version")) == 1);
  const char* const broken[] = {steps[0], steps[1], "INSERT INTO none VALUES (1)"};
  const Status failed = migrate(*database, broken);
  CHECK(failed.code() == StatusCode::bad_file);
  CHECK(must(database->integer("PRAGMA user_version")) == 1);
  CHECK(must(database->integer("SELECT count(*) FROM pragma_table_info('a')")) == 1);
  must(migrate(*database, steps));
  must(migrate(*database, steps));
  CHECK(must(database->integer("PRAGMA user_version")) == 3);
  CHECK(must(database->integer("SELECT count(y) FROM a")) == 1);
  CHECK(migrate(*database, {steps, 2}).code() == StatusCode::unsupported);
}

TEST_CASE("the default place is below the folder for data") {
  const char* const kept = getenv("XDG_DATA_HOME");
  const std::string before = kept == nullptr ? "" : kept;
  setenv("XDG_DATA_HOME", "/data", 1);
  CHECK(must(default_path()) == "/data/infer/conversations.db");
  setenv("XDG_DATA_HOME", "relative", 1);
  const char* const home = getenv("HOME");
  const std::string home_before = home == nullptr ? "" : home;
  setenv("HOME", "/home/me", 1);
  CHECK(must(default_path()) == "/home/me/.local/share/infer/conversations.db");
  unsetenv("HOME");
  CHECK(default_path().error().code() == StatusCode::not_found);
  if (home != nullptr) setenv("HOME", home_before.c_str(), 1);
  if (kept != nullptr) {
    setenv("XDG_DATA_HOME", before.c_str(), 1);
  } else {
    unsetenv("XDG_DATA_HOME");
  }
}

}  // namespace
}  // namespace infer::conversations::test
