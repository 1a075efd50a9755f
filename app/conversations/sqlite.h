// A small layer over SQLite's C API: a connection, statements, transactions, typed errors that name
// the file.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "infer/status.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace infer::conversations {

class Database;

/// An empty file of this name says that damage was met while the file was in use: opening does not
/// look for all that can be wrong.
std::string doubt_of(const std::string& path);

/// A prepared statement. It must not outlive its Database.
///
///   Statement rows = database.prepare("SELECT id FROM messages WHERE conversation = ?1");
///   rows.bind(1, conversation);
///   while (rows.step()) use(rows.integer(0));
///   if (!rows.status().ok()) return rows.status();
class Statement {
 public:
  Statement(Statement&&) = default;

  /// Parameters count from 1. The text is copied.
  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, std::string_view text);
  /// NULL if the value is 0.
  Statement& bind_or_null(int parameter, int64_t value);

  /// True: there is a row. False: there are no more, or a call failed, which status() tells.
  bool step();
  const Status& status() const { return status_; }
  /// Steps to the end and makes the statement ready for other parameters.
  Status run();
  /// Makes the statement ready to begin again.
  void reset();

  /// Columns of the row count from 0. Values of another type become 0 or "".
  int64_t integer(int column);
  double real(int column);
  /// Valid UTF-8 whatever the file holds.
  std::string text(int column);

 private:
  friend class Database;
  Statement(Database& database, std::string_view sql);
  void check(int code);

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  Status status_;
};

/// A connection. Not thread-safe.
class Database {
 public:
  /// Makes the file if there is none, and does not read it yet. `busy_ms`: how long calls wait for
  /// another program. Closing leaves the WAL as it is until file_is_sound() was called.
  static Result<std::unique_ptr<Database>> open(const std::string& path, int busy_ms);
  /// An empty one in memory. Messages name `path`.
  static Result<std::unique_ptr<Database>> open_in_memory(const std::string& path);
  /// One that only reads, beside the connection that writes. Errors: unsupported where the file has
  /// no WAL: reading would keep others from writing.
  static Result<std::unique_ptr<Database>> open_reader(const std::string& path, int busy_ms);

  /// How a file is read that cannot be opened for writing.
  enum class ReadBy {
    sharing,   ///< beside other programs; needs the files beside it
    locking,   ///< no other program can use it meanwhile; its log is read without a file of indexes
    trusting,  ///< without locks and without its log: nothing may write it meanwhile
  };
  /// Of a database in memory: takes all that the file at path() has. Changes nothing if it fails.
  Status copy_file(ReadBy how);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// From now on closing writes the WAL into the file.
  void file_is_sound();

  Statement prepare(std::string_view sql) { return {*this, sql}; }
  /// Whether path() names no file or another one than the one that is open. The system is asked at
  /// most once a second. Then no transaction begins: what is written would be lost.
  bool is_moved();

  /// Several statements without parameters.
  Status execute(const char* sql);
  /// The first column of the first row; 0 if there is none.
  Result<int64_t> integer(std::string_view sql);
  int64_t last_id() const;
  int64_t changes() const;

  /// Runs `work` in a transaction; keeps nothing of it if it fails. Inside another transaction it
  /// belongs to that one, which may go on after a failure.
  template <typename Work>
  Status transaction(Work&& work) {
    const bool is_outer = !in_transaction_;
    if (Status begun = begin(is_outer); !begun.ok()) return begun;
    Status done = work();
    if (done.ok()) done = execute(is_outer ? "COMMIT" : "RELEASE inner");
    if (!done.ok()) roll_back(is_outer);
    if (is_outer) in_transaction_ = false;
    return done;
  }

  /// Statements end with an error of code cancelled as soon as this is true. It outlives the
  /// connection; null: they do not.
  void stop_if(const std::atomic<bool>* stops);
  const std::atomic<bool>* stops_if() const { return stops_; }

  /// Says why the last call failed.
  Status failure(int code);
  /// Whether the last failure was a damaged search index.
  bool index_is_damaged() const;
  const std::string& path() const { return path_; }

 private:
  friend class Statement;
  explicit Database(std::string path) : path_(std::move(path)) {}
  Status open_handle(const char* name, int flags);
  Status begin(bool is_outer);
  void roll_back(bool is_outer);

  std::string path_;
  sqlite3* handle_ = nullptr;
  bool in_transaction_ = false;
  int last_failure_ = 0;
  const std::atomic<bool>* stops_ = nullptr;
  bool is_moved_ = false;
  std::chrono::steady_clock::time_point ask_moved_at_;
};

}  // namespace infer::conversations
