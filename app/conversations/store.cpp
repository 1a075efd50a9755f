#include "conversations/store.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "conversations/json.h"
#include "conversations/limits.h"
#include "conversations/utf8.h"
#include "platform/files.h"

namespace infer::conversations {
namespace {

constexpr std::string_view kColumns =
    "id, title, created_at, used_at, pinned, deleted_at, system_prompt, settings, preset, "
    "selected_root";

Conversation read_conversation(Statement& row) {
  Conversation c;
  c.id = row.integer(0);
  c.title = row.text(1);
  c.created_at = row.integer(2);
  c.used_at = row.integer(3);
  c.pinned = row.integer(4) != 0;
  c.deleted_at = row.integer(5);
  c.system_prompt = row.text(6);
  c.settings = compact_object(row.text(7)).value_or("{}");
  c.preset = row.text(8);
  c.selected_root = row.integer(9);
  return c;
}

Result<std::vector<Conversation>> read_conversations(Statement rows) {
  std::vector<Conversation> all;
  while (rows.step()) all.push_back(read_conversation(rows));
  if (!rows.status().ok()) return tl::unexpected(rows.status());
  return all;
}

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::system: return "system";
    case Role::user: return "user";
    case Role::assistant: return "assistant";
    case Role::tool: return "tool";
  }
  return "user";
}

const char* state_name(State state) {
  switch (state) {
    case State::complete: return "complete";
    case State::writing: return "writing";
    case State::stopped: return "stopped";
  }
  return "complete";
}

Store::Store(std::unique_ptr<Database> database, OpenOptions options,
             std::unique_ptr<platform::OpenFile> lock)
    : lock_(std::move(lock)), database_(std::move(database)), options_(std::move(options)) {}

Store::~Store() = default;

Time Store::now() {
  using namespace std::chrono;
  const Time time =
      options_.clock ? options_.clock()
                     : duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  // Two changes never have the same time, even if the clock is set back.
  last_time_ = std::max(time, last_time_ + 1);
  return last_time_;
}

Status Store::not_found(const char* what, Id id) const {
  return {StatusCode::not_found, fmt::format("{}: there is no {} {}", path(), what, id)};
}

Status Store::require_change(Status done, const char* what, Id id) {
  if (done.ok() && database_->changes() == 0) return not_found(what, id);
  return done;
}

Status Store::write(const std::function<Status()>& work) {
  Status done = database_->transaction(work);
  if (done.code() != StatusCode::bad_file || !database_->index_is_damaged()) return done;
  if (Status rebuilt = rebuild_index(); !rebuilt.ok()) return rebuilt;
  return database_->transaction(work);
}

Status Store::together(const std::function<Status()>& work) { return database_->transaction(work); }

Status Store::rebuild_index() {
  return database_->transaction([&] {
    // A message that is being written is not in the index.
    return database_->execute(
        "INSERT INTO search(search) VALUES ('rebuild');"
        "INSERT INTO search(search, rowid, text, reasoning)"
        "  SELECT 'delete', id, text, reasoning FROM messages WHERE state = 'writing';"
        "INSERT INTO title_search(title_search) VALUES ('rebuild');");
  });
}

Result<Conversation> Store::create(const Conversation& wanted) {
  const std::optional<std::string> settings = compact_object(wanted.settings);
  if (!settings) return tl::unexpected(not_an_object(path(), "settings"));
  Conversation made = wanted;
  made.title = valid_utf8(shortened(wanted.title, kMaxTitleBytes));
  made.system_prompt = valid_utf8(wanted.system_prompt);
  made.settings = *settings;
  made.preset = valid_utf8(wanted.preset);
  made.created_at = made.used_at = now();
  made.deleted_at = made.selected_root = 0;
  const Status done = write([&] {
    Status inserted = database_
                          ->prepare(
                              "INSERT INTO conversations(title, created_at, used_at, pinned, "
                              "system_prompt, settings, preset) "
                              "VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6)")
                          .bind(1, made.title)
                          .bind(2, made.created_at)
                          .bind(3, int64_t{made.pinned})
                          .bind(4, made.system_prompt)
                          .bind(5, made.settings)
                          .bind(6, made.preset)
                          .run();
    made.id = database_->last_id();
    return inserted;
  });
  if (!done.ok()) return tl::unexpected(done);
  return made;
}

Result<std::vector<Conversation>> Store::list(int64_t most, int64_t skip) {
  Statement rows = database_->prepare(
      fmt::format("SELECT {} FROM conversations WHERE deleted_at IS NULL AND id > 0 "
                  "ORDER BY pinned DESC, used_at DESC, id DESC LIMIT ?1 OFFSET ?2",
                  kColumns));
  rows.bind(1, most).bind(2, skip);
  return read_conversations(std::move(rows));
}

Result<std::vector<Conversation>> Store::trash() {
  return read_conversations(
      database_->prepare(fmt::format("SELECT {} FROM conversations WHERE deleted_at > 0 AND id > 0 "
                                     "ORDER BY deleted_at DESC, id DESC",
                                     kColumns)));
}

Result<Conversation> Store::conversation(Id id) {
  Statement row =
      database_->prepare(fmt::format("SELECT {} FROM conversations WHERE id = ?1", kColumns));
  if (row.bind(1, id).step()) return read_conversation(row);
  return tl::unexpected(row.status().ok() ? not_found("conversation", id) : row.status());
}

Status Store::rename(Id id, std::string_view title) {
  return write([&] {
    return require_change(database_->prepare("UPDATE conversations SET title = ?2 WHERE id = ?1")
                              .bind(1, id)
                              .bind(2, valid_utf8(shortened(title, kMaxTitleBytes)))
                              .run(),
                          "conversation", id);
  });
}

Status Store::set_pinned(Id id, bool pinned) {
  return write([&] {
    return require_change(database_->prepare("UPDATE conversations SET pinned = ?2 WHERE id = ?1")
                              .bind(1, id)
                              .bind(2, int64_t{pinned})
                              .run(),
                          "conversation", id);
  });
}

Status Store::configure(Id id, std::string_view system_prompt, std::string_view settings,
                        std::string_view preset) {
  const std::optional<std::string> compact = compact_object(settings);
  if (!compact) return not_an_object(path(), "settings");
  return write([&] {
    return require_change(
        database_
            ->prepare("UPDATE conversations SET system_prompt = ?2, settings = ?3, preset = ?4 "
                      "WHERE id = ?1")
            .bind(1, id)
            .bind(2, valid_utf8(system_prompt))
            .bind(3, *compact)
            .bind(4, valid_utf8(preset))
            .run(),
        "conversation", id);
  });
}

Status Store::touch(Id conversation) {
  return require_change(database_->prepare("UPDATE conversations SET used_at = ?2 WHERE id = ?1")
                            .bind(1, conversation)
                            .bind(2, now())
                            .run(),
                        "conversation", conversation);
}

Status Store::move_to_trash(Id id) {
  return write([&] {
    return require_change(
        database_->prepare("UPDATE conversations SET deleted_at = ?2 WHERE id = ?1")
            .bind(1, id)
            .bind(2, now())
            .run(),
        "conversation", id);
  });
}

Status Store::restore(Id id) {
  return write([&] {
    return require_change(
        database_->prepare("UPDATE conversations SET deleted_at = NULL WHERE id = ?1")
            .bind(1, id)
            .run(),
        "conversation", id);
  });
}

Result<int64_t> Store::empty_trash(Time before) {
  int64_t conversations = 0;
  const Status done = write([&] {
    Status deleted =
        database_->prepare("DELETE FROM conversations WHERE deleted_at > 0 AND deleted_at < ?1")
            .bind(1, before)
            .run();
    conversations = database_->changes();
    if (!deleted.ok()) return deleted;
    return database_->prepare("DELETE FROM messages WHERE deleted_at < ?1").bind(1, before).run();
  });
  if (!done.ok()) return tl::unexpected(done);
  return conversations;
}

Result<std::vector<Preset>> Store::presets() {
  std::vector<Preset> all;
  Statement rows =
      database_->prepare("SELECT name, system_prompt, settings FROM presets ORDER BY name");
  while (rows.step()) {
    all.push_back({rows.text(0), rows.text(1), compact_object(rows.text(2)).value_or("{}")});
  }
  if (!rows.status().ok()) return tl::unexpected(rows.status());
  return all;
}

Status Store::save_preset(const Preset& preset) {
  const std::optional<std::string> settings = compact_object(preset.settings);
  if (!settings) return not_an_object(path(), "settings");
  const std::string name = valid_utf8(shortened(preset.name, kMaxTitleBytes));
  if (name.empty()) {
    return {StatusCode::invalid_argument, fmt::format("{}: a preset needs a name", path())};
  }
  return write([&] {
    return database_
        ->prepare(
            "INSERT OR REPLACE INTO presets(name, system_prompt, settings) "
            "VALUES (?1, ?2, ?3)")
        .bind(1, name)
        .bind(2, valid_utf8(preset.system_prompt))
        .bind(3, *settings)
        .run();
  });
}

Status Store::delete_preset(std::string_view name) {
  return write([&]() -> Status {
    Status done = database_->prepare("DELETE FROM presets WHERE name = ?1").bind(1, name).run();
    if (done.ok() && database_->changes() == 0) {
      return {StatusCode::not_found, fmt::format("{}: there is no preset '{}'", path(), name)};
    }
    return done;
  });
}

}  // namespace infer::conversations
