// The part of the store that opens the file.
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "conversations/recovery.h"
#include "conversations/schema.h"
#include "conversations/store.h"
#include "platform/files.h"
#include "platform/folders.h"

namespace infer::conversations {
namespace {

namespace fs = std::filesystem;

std::string reason(int code) { return std::generic_category().message(code); }

Status cannot(const std::string& path, const char* what, const std::string& why) {
  return {StatusCode::io, fmt::format("{}: cannot {}: {}; check that its folder exists and may be "
                                      "written to",
                                      path, what, why)};
}

/// Makes the folder and an empty file that only the user can read. SQLite gives the files beside it
/// the same permissions.
Status make_file(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty() && fs::create_directories(folder, failed)) {
    fs::permissions(folder, fs::perms::owner_all, failed);
  }
  if (failed) return cannot(folder.string(), "make the folder", failed.message());
  const int refused = platform::create_private(path);
  if (refused == EEXIST) return {};
  if (refused != 0) return cannot(path, "make the file", reason(refused));
  platform::sync_folder(folder.empty() ? "." : folder);
  return {};
}

/// Where the file system has no locks, there are none. Another process may have its own for a
/// moment (Store::end_interrupted()).
Status share_lock(platform::OpenFile& lock, const std::string& path, int busy_ms) {
  for (int waited = 0;; waited += 10) {
    const int refused = lock.try_shared_lock();
    if (refused == 0 || refused == ENOLCK || refused == EOPNOTSUPP) return {};
    if (waited >= busy_ms) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {StatusCode::busy,
          fmt::format("{}: another process is repairing the file; try again later", path)};
}

/// Every open store holds a shared lock on this file. Moving a damaged file aside needs the only
/// one: a file must not be moved while another process has it open. The file of conversations
/// itself cannot serve: closing it would release the locks of SQLite.
Result<std::unique_ptr<platform::OpenFile>> take_lock(const std::string& path, int busy_ms) {
  constexpr uint32_t kUserOnly = 0600;
  const std::string name = path + ".lock";
  auto lock = std::make_unique<platform::OpenFile>(name, kUserOnly, true);
  if (lock->failure() != 0) {
    return tl::unexpected(cannot(name, "make the file", reason(lock->failure())));
  }
  Status shared = share_lock(*lock, path, busy_ms);
  if (!shared.ok()) return tl::unexpected(shared);
  return lock;
}

/// `thorough`: also compares indexes with their tables, which takes several times as long.
Status check(Database& database, bool thorough) {
  Statement row =
      database.prepare(thorough ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)");
  const std::string found = row.step() ? row.text(0) : "";
  if (!row.status().ok()) return row.status();
  if (found == "ok") return {};
  // A page that the disk did not give is reported as one that is damaged.
  constexpr std::string_view kCode = "error code=";
  if (const size_t at = found.find(kCode); at != std::string::npos) {
    const int code = std::atoi(found.c_str() + at + kCode.size());
    if (Status failed = database.failure(code); failed.code() == StatusCode::io) return failed;
  }
  return {StatusCode::bad_file, fmt::format("{}: the file is damaged: {}", database.path(), found)};
}

/// A statement that is right fails with an unspecific error if the file's header is damaged.
Status blame_file(const Status& failed) {
  return failed.code() == StatusCode::internal ? Status(StatusCode::bad_file, failed.message())
                                               : failed;
}

/// Changing to WAL mode is not repeated by SQLite if another process does the same.
Status use_wal(Database& database, int busy_ms) {
  for (int waited = 0;; waited += 10) {
    Status done = database.execute("PRAGMA journal_mode = WAL");
    if (done.code() != StatusCode::busy || waited >= busy_ms) return done;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Copies the file into a database in memory.
Status copy_file(Database& database) {
  using ReadBy = Database::ReadBy;
  Status copied = database.copy_file(ReadBy::sharing);
  if (copied.ok()) return copied;
  // Every open store has this file open, and its lock. Without both, nothing writes.
  const std::string& path = database.path();
  platform::OpenFile lock(path + ".lock", 0600, true);
  if (lock.failure() == 0 && lock.try_lock() != 0) return copied;
  if (database.copy_file(ReadBy::locking).ok()) return {};
  std::error_code none;
  const auto log_bytes = fs::file_size(path + "-wal", none);
  if (!none && log_bytes > 0) return copied;  // the file without its log may be half of a change
  return database.copy_file(ReadBy::trusting);
}

}  // namespace

Result<std::string> default_path() {
  fs::path data = platform::folder_of("XDG_DATA_HOME");
  if (const fs::path home = platform::folder_of("HOME"); data.empty() && !home.empty()) {
    data = home / ".local" / "share";
  }
  if (data.empty()) {
    return tl::unexpected(Status(StatusCode::not_found,
                                 "there is no place for conversations: set XDG_DATA_HOME or HOME "
                                 "to an absolute path"));
  }
  return (data / "infer" / "conversations.db").string();
}

Status Store::prepare() {
  Database& database = *database_;
  const Status known = check_version(database, migration_steps().size());
  if (!known.ok()) return blame_file(known);
  std::error_code failed;
  const bool doubted = lock_ != nullptr && fs::exists(doubt_of(database.path()), failed);
  if (const Status sound = check(database, doubted); !sound.ok()) return blame_file(sound);
  if (doubted) fs::remove(doubt_of(database.path()), failed);
  // Extra: also without WAL, which some network file systems do not have, a commit survives a power
  // cut. Temporary tables hold texts and stay in memory.
  Status done = database.execute(
      "PRAGMA foreign_keys = ON; PRAGMA synchronous = EXTRA; PRAGMA temp_store = MEMORY;"
      "PRAGMA journal_size_limit = 16777216; PRAGMA cell_size_check = ON");
  if (done.ok()) done = use_wal(database, options_.busy_ms);
  if (done.ok()) done = migrate(database, migration_steps());
  if (done.ok()) done = check_schema(database);
  if (done.ok()) done = end_interrupted();
  if (done.ok()) database.file_is_sound();
  return done;
}

Status Store::end_interrupted() {
  std::vector<Id> left;
  Statement rows = database_->prepare(
      "SELECT id FROM messages WHERE state = 'writing' UNION SELECT message FROM pieces");
  while (rows.step()) left.push_back(rows.integer(0));
  if (!rows.status().ok()) return rows.status();
  const Result<int64_t> hidden =
      database_->integer("SELECT EXISTS(SELECT 1 FROM conversations WHERE deleted_at < 0)");
  if (!hidden) return hidden.error();
  if (left.empty() && *hidden == 0) return {};
  // While another process has the file open, the answers and imports may be its own.
  const int refused = lock_ == nullptr ? ENOLCK : lock_->try_lock();
  const auto share = [&] { return share_lock(*lock_, database_->path(), options_.busy_ms); };
  if (refused == EWOULDBLOCK) return share();
  Status done = write([&]() -> Status {
    Statement stop = database_->prepare(
        "UPDATE messages SET state = 'stopped' WHERE id = ?1 AND state = 'writing'");
    for (const Id id : left) {
      Status done = merge_pieces(id);
      if (done.ok()) done = stop.bind(1, id).run();
      if (!done.ok()) return done;
    }
    // So do the imports that were not shown.
    needs_cleaning_ = *hidden != 0;
    return database_->prepare("UPDATE conversations SET deleted_at = -1 WHERE deleted_at < -1")
        .run();
  });
  if (refused == 0) {
    if (Status shared = share(); done.ok()) done = shared;
  }
  return done;
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path, OpenReport* report,
                                           OpenOptions options) {
  OpenReport ignored;
  if (report == nullptr) report = &ignored;
  *report = {};
  for (bool recovered = false;; recovered = true) {
    if (Status moved = finish_recovery(path, *report); !moved.ok()) return tl::unexpected(moved);
    if (Status made = make_file(path); !made.ok()) return tl::unexpected(made);
    Result<std::unique_ptr<platform::OpenFile>> taken = take_lock(path, options.busy_ms);
    if (!taken) return tl::unexpected(taken.error());
    platform::OpenFile& lock = **taken;
    Result<std::unique_ptr<Database>> database = Database::open(path, options.busy_ms);
    if (!database) return tl::unexpected(database.error());
    std::unique_ptr<Store> store(new Store(std::move(*database), options, *std::move(taken)));
    Status done = store->prepare();
    if (done.ok()) return store;
    if (done.code() != StatusCode::bad_file || recovered) return tl::unexpected(done);
    store->database_.reset();
    if (lock.try_lock() == EWOULDBLOCK) {
      return tl::unexpected(
          Status(StatusCode::busy, fmt::format("{} Another process has the file open: close it, "
                                               "then open the file again to repair it.",
                                               done.message())));
    }
    if (Status set = recover(path, done.message(), *report); !set.ok()) return tl::unexpected(set);
    std::error_code ignored_failure;
    fs::remove(doubt_of(path), ignored_failure);
  }
}

Status Store::write_anew(std::unique_ptr<Store>& store) {
  const std::string path = store->path();
  const std::string part = path + ".anew";
  std::error_code failed;
  if (fs::exists(path, failed) || failed) {
    return cannot(path, "write the conversations again", "another file is there");
  }
  fs::remove(part, failed);
  if (Status made = make_file(part); !made.ok()) return made;
  Status written = store->database_->prepare("VACUUM INTO ?1").bind(1, part).run();
  const OpenOptions options = store->options_;
  if (!written.ok()) {
    fs::remove(part, failed);
    return written;
  }
  // Closing removes the log by its name: the new file must not have one yet.
  store.reset();
  for (const char* end : {"-wal", "-shm"}) fs::remove(path + end, failed);
  fs::create_hard_link(part, path, failed);  // takes no other file's place
  if (failed && !fs::exists(path)) {
    fs::rename(part, path, failed);  // where there are no links
  } else {
    std::error_code ignored;
    if (!failed) fs::remove(part, ignored);
  }
  if (failed) return cannot(path, "write the conversations again", failed.message());
  const fs::path folder = fs::path(path).parent_path();
  platform::sync_folder(folder.empty() ? "." : folder);
  Result<std::unique_ptr<Store>> opened = open(path, nullptr, options);
  if (!opened) return opened.error();
  store = *std::move(opened);
  return {};
}

Result<std::unique_ptr<Store>> Store::open_in_memory(const std::string& path, OpenOptions options) {
  for (bool copies = true;; copies = false) {
    Result<std::unique_ptr<Database>> database = Database::open_in_memory(path);
    if (!database) return tl::unexpected(database.error());
    if (copies && !copy_file(**database).ok()) continue;
    std::unique_ptr<Store> store(new Store(*std::move(database), options, nullptr));
    Status done = store->prepare();
    if (done.ok()) return store;
    if (!copies) return tl::unexpected(std::move(done));
  }
}

}  // namespace infer::conversations
