#include "conversations/recovery.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
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

/// What is to be moved where, from before the first file is moved until the last one is in its
/// place:
/// "<path>.recovery". It is locked while a process works on it.
class Plan {
 public:
  explicit Plan(const std::string& path)
      : path_(path), name_(path + ".recovery"), file_(name_, kRights, false) {}

  int failure() const { return file_.failure(); }
  /// False: another process is at it, or it has just been done.
  bool take() { return file_.try_lock() == 0 && file_.is_named(name_); }

  Status write(const OpenReport& report) {
    const nlohmann::json json = {{"set_aside", fs::path(report.set_aside).filename().string()},
                                 {"damage", report.damage},
                                 {"conversations", report.recovered_conversations},
                                 {"messages", report.recovered_messages}};
    const std::string text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::span<const char> left(text);
    int failed = file_.clear();
    for (size_t count = 0; failed == 0 && !left.empty(); left = left.subspan(count)) {
      failed = file_.write(left, count);
    }
    if (failed == 0) failed = file_.sync();
    sync_folder();
    if (failed == 0) return {};
    remove();
    return {StatusCode::io, fmt::format("{}: cannot write the file: {}", name_,
                                        std::generic_category().message(failed))};
  }

  /// False: it was not written to its end. So nothing has been moved.
  bool read(OpenReport& report) {
    constexpr size_t kMost = 64 << 10;
    std::string text(kMost, '\0');
    size_t used = 0;
    for (size_t count = 1; count > 0 && used < kMost; used += count) {
      if (file_.read(std::span(text).subspan(used), count) != 0) return false;
    }
    const auto json = nlohmann::json::parse(text.substr(0, used), nullptr, false);
    const auto text_of = [&](const char* member) {
      const auto found = json.find(member);
      return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto count_of = [&](const char* member) {
      const auto found = json.find(member);
      return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
    };
    if (!json.is_object()) return false;
    const fs::path name = text_of("set_aside");
    if (name.empty() || name.has_parent_path()) return false;
    report.set_aside = (fs::path(path_).parent_path() / name).string();
    report.damage = text_of("damage");
    report.recovered_conversations = count_of("conversations");
    report.recovered_messages = count_of("messages");
    return true;
  }

  /// Moves what is not moved yet.
  Status carry_out(const OpenReport& report) {
    std::error_code failed;
    const auto move = [&](const std::string& from, const std::string& to) -> Status {
      fs::rename(from, to, failed);
      if (!failed || failed == std::errc::no_such_file_or_directory) return {};
      return {StatusCode::io, fmt::format("{}: the damaged file cannot be moved to {}: {}", path_,
                                          report.set_aside, failed.message())};
    };
    // As long as the new file has its own name, what has its later one is the damaged file.
    if (fs::exists(new_file(path_), failed)) {
      // First the WAL: one that stayed would be taken for the new file's.
      for (const char* end : {"-wal", ""}) {
        if (Status moved = move(path_ + end, report.set_aside + end); !moved.ok()) return moved;
      }
      fs::remove(path_ + "-shm", failed);
      if (Status moved = move(new_file(path_), path_); !moved.ok()) return moved;
      sync_folder();
    }
    remove();
    return {};
  }

  void remove() {
    std::error_code ignored;
    fs::remove(name_, ignored);
    sync_folder();
  }

 private:
  static constexpr uint32_t kRights = 0600;

  void sync_folder() const {
    const fs::path folder = fs::path(path_).parent_path();
    platform::sync_folder(folder.empty() ? "." : folder);
  }

  std::string path_;
  std::string name_;
  platform::OpenFile file_;
};

}  // namespace

Status finish_recovery(const std::string& path, OpenReport& report) {
  std::error_code failed;
  if (!fs::exists(path + ".recovery", failed)) {
    // So does a version leave it that wrote no plan.
    if (!fs::exists(path, failed) && !failed && fs::exists(new_file(path), failed)) {
      fs::rename(new_file(path), path, failed);
    }
    return {};
  }
  Plan plan(path);
  if (plan.failure() != 0) {
    return {StatusCode::io, fmt::format("{}.recovery: cannot open the file: {}", path,
                                        std::generic_category().message(plan.failure()))};
  }
  if (!plan.take()) return {};
  if (plan.read(report)) return plan.carry_out(report);
  plan.remove();
  return {};
}

Status recover(const std::string& path, const std::string& damage, OpenReport& report) {
  report.damage = damage;
  const auto failed = [&](const Status& status) {
    return Status(status.code(),
                  fmt::format("{} It could not be repaired: {}", damage, status.message()));
  };
  if (Status made = make_new_file(path, report); !made.ok()) return failed(made);
  report.set_aside = aside(path);
  Plan plan(path);
  if (plan.failure() != 0 || !plan.take()) {
    return failed({StatusCode::io, fmt::format("{}.recovery: cannot make the file", path)});
  }
  if (Status written = plan.write(report); !written.ok()) return failed(written);
  return plan.carry_out(report);
}

}  // namespace infer::conversations
