#include "conversations/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "conversations/limits.h"
#include "conversations/utf8.h"
#include "platform/files.h"

namespace infer::conversations {

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v2(database.handle_, sql.data(), static_cast<int>(sql.size()), &statement,
                           nullptr));
  statement_.reset(statement);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::check(int code) {
  if (code != SQLITE_OK && status_.ok()) status_ = database_->failure(code);
}

Statement& Statement::bind(int parameter, int64_t value) {
  if (status_.ok()) check(sqlite3_bind_int64(statement_.get(), parameter, value));
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  if (status_.ok()) check(sqlite3_bind_double(statement_.get(), parameter, value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  // A null pointer would be NULL.
  const char* const data = text.empty() ? "" : text.data();
  if (status_.ok()) {
    check(sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_TRANSIENT,
                              SQLITE_UTF8));
  }
  return *this;
}

Statement& Statement::bind_or_null(int parameter, int64_t value) {
  if (value != 0) return bind(parameter, value);
  if (status_.ok()) check(sqlite3_bind_null(statement_.get(), parameter));
  return *this;
}

bool Statement::step() {
  if (!status_.ok()) return false;
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  check(code == SQLITE_DONE ? SQLITE_OK : code);
  return false;
}

Status Statement::run() {
  while (step()) {
  }
  Status result = status_;
  reset();
  return result;
}

void Statement::reset() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_.get());
  status_ = {};
}

int64_t Statement::integer(int column) { return sqlite3_column_int64(statement_.get(), column); }

double Statement::real(int column) { return sqlite3_column_double(statement_.get(), column); }

std::string Statement::text(int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) {
    if (sqlite3_errcode(database_->handle_) == SQLITE_NOMEM) check(SQLITE_NOMEM);
    return {};
  }
  return valid_utf8({text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))});
}

std::string doubt_of(const std::string& path) { return path + ".doubt"; }

Result<std::unique_ptr<Database>> Database::open(const std::string& path, int busy_ms) {
  std::unique_ptr<Database> database(new Database(path));
  const Status opened =
      database->open_handle(path.c_str(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!opened.ok()) return tl::unexpected(opened);
  sqlite3_busy_timeout(database->handle_, busy_ms);
  return database;
}

Result<std::unique_ptr<Database>> Database::open_in_memory(const std::string& path) {
  std::unique_ptr<Database> database(new Database(path));
  const Status opened =
      database->open_handle(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!opened.ok()) return tl::unexpected(opened);
  return database;
}

Result<std::unique_ptr<Database>> Database::open_reader(const std::string& path, int busy_ms) {
  std::unique_ptr<Database> database(new Database(path));
  const Status opened = database->open_handle(path.c_str(), SQLITE_OPEN_READONLY);
  if (!opened.ok()) return tl::unexpected(opened);
  sqlite3_busy_timeout(database->handle_, busy_ms);
  Statement mode = database->prepare("PRAGMA journal_mode");
  const bool has_wal = mode.step() && mode.text(0) == "wal";
  if (!mode.status().ok()) return tl::unexpected(mode.status());
  if (!has_wal) return tl::unexpected(Status(StatusCode::unsupported, path + ": there is no WAL"));
  return database;
}

void Database::stop_if(const std::atomic<bool>* stops) {
  constexpr int kInstructions = 1000;
  stops_ = stops;
  const auto ask = [](void* self) {
    return static_cast<const Database*>(self)->stops_->load() ? 1 : 0;
  };
  if (stops != nullptr) {
    sqlite3_progress_handler(handle_, kInstructions, ask, this);
  } else {
    sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
  }
}

Status Database::open_handle(const char* name, int flags) {
  const int code =
      sqlite3_open_v2(name, &handle_, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (code != SQLITE_OK) return failure(code);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMaxTextBytes);
  // Nothing that a file says may write to the index's own tables.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return {};
}

Status Database::copy_file(ReadBy how) {
  std::string name = path_;
  if (how == ReadBy::trusting) {
    name = "file:";
    for (const char c : path_) {
      name += c == '%' ? "%25" : c == '?' ? "%3f" : c == '#' ? "%23" : std::string(1, c);
    }
    name += "?immutable=1";
  }
  Database file(path_);
  const int rights = how == ReadBy::locking ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  Status done = file.open_handle(name.c_str(), rights | SQLITE_OPEN_URI);
  if (done.ok() && how == ReadBy::locking) {
    done = file.execute("PRAGMA locking_mode = EXCLUSIVE");
  }
  if (!done.ok()) return done;
  sqlite3_backup* const copy = sqlite3_backup_init(handle_, "main", file.handle_, "main");
  if (copy == nullptr) return failure(sqlite3_errcode(handle_));
  const int stepped = sqlite3_backup_step(copy, -1);
  const int ended = sqlite3_backup_finish(copy);
  return stepped == SQLITE_DONE && ended == SQLITE_OK ? Status() : file.failure(stepped);
}

void Database::file_is_sound() {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

Database::~Database() { sqlite3_close_v2(handle_); }

Status Database::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : failure(code);
}

Result<int64_t> Database::integer(std::string_view sql) {
  Statement row = prepare(sql);
  const int64_t value = row.step() ? row.integer(0) : 0;
  if (!row.status().ok()) return tl::unexpected(row.status());
  return value;
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(handle_); }

int64_t Database::changes() const { return sqlite3_changes64(handle_); }

bool Database::is_moved() {
  constexpr std::chrono::seconds kEvery{1};
  const auto now = std::chrono::steady_clock::now();
  if (now < ask_moved_at_) return is_moved_;
  ask_moved_at_ = now + kEvery;
  int moved = 0;  // and stays so where there is no file
  sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  is_moved_ = moved != 0;
  return is_moved_;
}

Status Database::begin(bool is_outer) {
  last_failure_ = SQLITE_OK;
  if (is_outer && is_moved()) {
    return {StatusCode::io,
            fmt::format("{}: the file was moved, removed or replaced by another one while it was "
                        "open; put it back, or take away the file that is there now",
                        path_)};
  }
  if (!is_outer && sqlite3_get_autocommit(handle_) != 0) {
    return {StatusCode::io, fmt::format("{}: an earlier failure has ended the transaction", path_)};
  }
  Status begun = execute(is_outer ? "BEGIN IMMEDIATE" : "SAVEPOINT inner");
  in_transaction_ = !is_outer || begun.ok();
  return begun;
}

void Database::roll_back(bool is_outer) {
  // After some failures, such as a full disk, SQLite has rolled back everything already. Then this
  // fails and changes nothing.
  sqlite3_exec(handle_, is_outer ? "ROLLBACK" : "ROLLBACK TO inner; RELEASE inner", nullptr,
               nullptr, nullptr);
}

bool Database::index_is_damaged() const { return last_failure_ == SQLITE_CORRUPT_VTAB; }

Status Database::failure(int code) {
  last_failure_ = code;
  const int system = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_);
  const auto say = [&](StatusCode status, std::string_view what) {
    return Status(status, fmt::format("{}: {}", path_, what));
  };
  const bool is_io = (code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN;
  if ((code & 0xFF) == SQLITE_FULL || (is_io && (system == ENOSPC || system == EDQUOT))) {
    return say(StatusCode::io, "the disk is full; free some space and try again");
  }
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return say(StatusCode::busy, "another program uses the file; close it or try again later");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return say(StatusCode::io,
                 "cannot write: the file or its folder is read-only; allow writing to both");
    case SQLITE_CANTOPEN:
      return say(StatusCode::io, fmt::format("cannot open the file: {}; check that its folder "
                                             "exists and may be written to",
                                             std::strerror(system == 0 ? EACCES : system)));
    case SQLITE_IOERR:
      return say(StatusCode::io,
                 fmt::format("the system failed to read or write: {}",
                             system == 0 ? sqlite3_errstr(code) : std::strerror(system)));
    case SQLITE_CORRUPT:
      if (!index_is_damaged()) (void)platform::create_private(doubt_of(path_));
      [[fallthrough]];
    case SQLITE_NOTADB:
      return say(StatusCode::bad_file,
                 "the file is damaged; when the program starts again, it sets the file aside and "
                 "recovers what can be read");
    case SQLITE_NOMEM: return say(StatusCode::out_of_memory, "not enough memory");
    case SQLITE_TOOBIG:
      return say(StatusCode::invalid_argument,
                 fmt::format("a text is too long: expected at most {} MiB", kMaxTextBytes >> 20));
    case SQLITE_INTERRUPT: return say(StatusCode::cancelled, "cancelled");
    default:
      return say(StatusCode::internal,
                 handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_));
  }
}

}  // namespace infer::conversations
