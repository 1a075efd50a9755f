#include "conversations/recovery.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <system_error>

#include "conversations/schema.h"
#include "platform/files.h"
#include "platform/folders.h"

namespace infer::conversations {
namespace {

namespace fs = std::filesystem;

std::string new_file(const std::string& path) { return path + ".recovered"; }

/// How a table is copied. `read` selects rows from id ?1 on, the id first. `kinds` has a letter for
/// each column: i(nteger), r(eal), t(ext). `write` inserts them, and puts right what the tables do
/// not allow: references to what is lost, unknown names.
struct Table {
  const char* read;
  const char* kinds;
  const char* write;
  int64_t* copied;
};

constexpr const char* kReadConversations =
    "SELECT id, title, created_at, used_at, pinned, coalesce(deleted_at, 0), system_prompt, "
    "settings, preset, coalesce(selected_root, 0) FROM conversations WHERE id >= ?1 ORDER BY id";
constexpr const char* kWriteConversations =
    "INSERT OR IGNORE INTO conversations VALUES (?1, ?2, ?3, ?4, ?5 <> 0, nullif(?6, 0), ?7, "
    "CASE WHEN json_valid(?8) THEN ?8 ELSE '{}' END, ?9, nullif(?10, 0))";
constexpr const char* kReadMessages =
    "SELECT id, conversation, coalesce(parent, 0), coalesce(selected_child, 0), role, state, text, "
    "reasoning, tool_calls, created_at, coalesce(deleted_at, 0), model, prompt_tokens, "
    "generated_tokens, prompt_rate, generate_rate, first_token_seconds "
    "FROM messages WHERE id >= ?1 ORDER BY id";
/// A place for messages whose conversation is lost.
constexpr const char* kWriteHomes =
    "INSERT OR IGNORE INTO conversations(id, title, created_at, used_at) "
    "SELECT ?1, 'Recovered', ?2, ?2 WHERE ?1 > 0";
constexpr const char* kWriteMessages =
    "INSERT OR IGNORE INTO messages SELECT ?1, ?2, "
    "(SELECT id FROM messages WHERE id = ?3 AND conversation = ?2 AND id < ?1), nullif(?4, 0), "
    "CASE WHEN ?5 IN ('system', 'assistant', 'tool') THEN ?5 ELSE 'user' END, "
    "CASE WHEN ?6 = 'complete' THEN ?6 ELSE 'stopped' END, ?7, ?8, "
    "CASE WHEN json_valid(?9) THEN ?9 ELSE '[]' END, ?10, nullif(?11, 0), ?12, ?13, ?14, "
    "coalesce(?15, 0), coalesce(?16, 0), coalesce(?17, 0) WHERE ?2 > 0";
constexpr const char* kReadPieces =
    "SELECT id, message, text, reasoning FROM pieces WHERE id >= ?1 ORDER BY id";
constexpr const char* kWritePieces =
    "INSERT OR IGNORE INTO pieces SELECT ?1, id, ?3, ?4 FROM messages WHERE id = ?2";
constexpr const char* kReadPresets =
    "SELECT rowid, name, system_prompt, settings FROM presets WHERE rowid >= ?1 ORDER BY rowid";
constexpr const char* kWritePresets =
    "INSERT OR IGNORE INTO presets SELECT ?2, ?3, CASE WHEN json_valid(?4) THEN ?4 ELSE '{}' END "
    "WHERE ?2 <> '' AND ?1 <> 0";

/// Copies the current row into the statement's parameters.
void bind_row(Statement& from, const char* kinds, Statement& to) {
  for (int column = 0; kinds[column] != '\0'; ++column) {
    switch (kinds[column]) {
      case 'i': to.bind(column + 1, from.integer(column)); break;
      case 'r': to.bind(column + 1, from.real(column)); break;
      default: to.bind(column + 1, from.text(column));
    }
  }
}

/// Copies every row that can be read. Where a page is damaged, the ids behind it are tried, one by
/// one at first and then in growing steps. Only errors of the new file are errors.
Status copy(Database& from, Database& to, const Table& table) {
  constexpr int kSmallSteps = 2'000;
  Statement write = to.prepare(table.write);
  Statement home = to.prepare(kWriteHomes);
  const bool needs_home = table.write == kWriteMessages;
  int64_t next = 1;
  int64_t step = 1;
  int failed = 0;
  for (Statement rows = from.prepare(table.read);; rows.reset()) {
    rows.bind(1, next);
    while (rows.step()) {
      const int64_t id = rows.integer(0);
      if (id < next) break;  // the order of the pages is damaged
      if (needs_home) {
        Status made = home.bind(1, rows.integer(1)).bind(2, rows.integer(9)).run();
        if (!made.ok()) return made;
      }
      bind_row(rows, table.kinds, write);
      if (Status done = write.run(); !done.ok()) return done;
      *table.copied += to.changes();
      if (id == std::numeric_limits<int64_t>::max()) return {};
      next = id + 1;
      step = 1;
    }
    if (rows.status().ok()) return {};
    const StatusCode code = rows.status().code();
    if (code == StatusCode::internal) return {};  // there is no such table
    if (code != StatusCode::bad_file && code != StatusCode::io) return rows.status();
    if (++failed > kSmallSteps) step *= 2;
    if (step > std::numeric_limits<int64_t>::max() - next) return {};
    next += step;
  }
}

Status copy_all(Database& from, Database& to, OpenReport& report) {
  int64_t others = 0;
  const Table tables[] = {
      {kReadConversations, "itiiiittti", kWriteConversations, &report.recovered_conversations},
      {kReadMessages, "iiiitttttiitiirrr", kWriteMessages, &report.recovered_messages},
      {kReadPieces, "iitt", kWritePieces, &others},
      {kReadPresets, "ittt", kWritePresets, &others}};
  for (const Table& table : tables) {
    if (Status done = copy(from, to, table); !done.ok()) return done;
  }
  const Result<int64_t> conversations = to.integer("SELECT count(*) FROM conversations");
  if (!conversations) return conversations.error();
  report.recovered_conversations = *conversations;
  return {};
}

Status make_new_file(const std::string& path, OpenReport& report) {
  std::error_code ignored;
  for (const char* end : {"", "-journal", "-wal", "-shm"})
    fs::remove(new_file(path) + end, ignored);
  // SQLite itself would make a file that others can read.
  if (const int refused = platform::create_private(new_file(path)); refused != 0) {
    return {StatusCode::io, fmt::format("{}: cannot make the file: {}", new_file(path),
                                        std::generic_category().message(refused))};
  }
  Result<std::unique_ptr<Database>> to = Database::open(new_file(path), 0);
  if (!to) return to.error();
  if (Status made = migrate(**to, migration_steps()); !made.ok()) return made;
  Result<std::unique_ptr<Database>> from = Database::open(path, 0);
  if (!from) return {};  // nothing can be read
  // Exclusive: no program that does not know our lock uses the file either. And no memory has to be
  // shared, for which there may be no space.
  Status ready = (*from)->execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = 1");
  if (!ready.ok()) return ready;
  // A file that cannot be read now may be readable later. One that is damaged will not be.
  const Result<int64_t> entries = (*from)->integer("SELECT count(*) FROM sqlite_schema");
  if (!entries && entries.error().code() != StatusCode::bad_file &&
      entries.error().code() != StatusCode::internal) {
    return entries.error();
  }
  return (*to)->transaction([&] { return copy_all(**from, **to, report); });
}

/// A name that is free, with the time of day.
std::string aside(const std::string& path) {
  const std::string wanted = fmt::format("{}.damaged-{}", path, platform::time_stamp());
  std::string name = wanted;
  std::error_code ignored;
  for (int i = 2; fs::exists(name, ignored) || fs::exists(name + "-wal", ignored); ++i) {
    name = fmt::format("{}-{}", wanted, i);
  }
  return name;
}

}  // namespace

void finish_recovery(const std::string& path) {
  std::error_code failed;
  if (fs::exists(path, failed) || failed || !fs::exists(new_file(path), failed)) return;
  fs::rename(new_file(path), path, failed);
}

Status recover(const std::string& path, const std::string& damage, OpenReport& report) {
  report.damage = damage;
  Status made = make_new_file(path, report);
  if (!made.ok()) {
    return {made.code(), fmt::format("{} It could not be repaired: {}", damage, made.message())};
  }
  report.set_aside = aside(path);
  // First the WAL: one that stayed would be taken for the new file's.
  for (const char* end : {"-wal", ""}) {
    std::error_code failed;
    fs::rename(path + end, report.set_aside + end, failed);
    if (failed && failed != std::errc::no_such_file_or_directory) {
      return {StatusCode::io, fmt::format("{}: the damaged file cannot be moved to {}: {}", path,
                                          report.set_aside, failed.message())};
    }
  }
  std::error_code ignored;
  fs::remove(path + "-shm", ignored);
  finish_recovery(path);
  const fs::path folder = fs::path(path).parent_path();
  platform::sync_folder(folder.empty() ? "." : folder);
  return {};
}

}  // namespace infer::conversations
