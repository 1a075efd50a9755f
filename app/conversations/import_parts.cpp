// The part of the store that imports. The conversations of an import that goes on have the negative
// of a time in `deleted_at`, which is its mark: so nothing shows them. -1 marks those that are to
// be deleted.
#include <fmt/format.h>

#include <limits>
#include <set>

#include "conversations/json.h"
#include "conversations/limits.h"
#include "conversations/store.h"
#include "conversations/utf8.h"
#include "platform/files.h"

namespace infer::conversations {
namespace {

using Clock = std::chrono::steady_clock;

/// Keeps so many ids free behind those that are in use, and returns the last one that is.
Result<Id> reserve_messages(Database& database, Id count) {
  const Result<int64_t> last = database.integer(
      "SELECT max(coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'messages'), 0), "
      "coalesce((SELECT max(id) FROM messages), 0))");
  if (!last) return last;
  if (*last < 0 || *last > std::numeric_limits<Id>::max() - count) {
    return tl::unexpected(
        Status(StatusCode::unsupported, fmt::format("{}: there are no more ids", database.path())));
  }
  Status done = database.prepare("DELETE FROM sqlite_sequence WHERE name = 'messages'").run();
  if (done.ok()) {
    done = database.prepare("INSERT INTO sqlite_sequence(name, seq) VALUES ('messages', ?1)")
               .bind(1, *last + count)
               .run();
  }
  if (!done.ok()) return tl::unexpected(done);
  return last;
}

}  // namespace

Time Store::begin_import() {
  // Another process may import at the same time.
  constexpr int kProcessBits = 20;
  constexpr Time kProcesses = Time{1} << kProcessBits;
  return -((now() << kProcessBits) + platform::process_id() % kProcesses);
}

/// Adds the conversation without its messages. Their ids are known from then on: so a message is
/// written once, with its selected child.
Status Store::insert_imported(Time mark, const ImportedConversation& imported, ImportPlace& place) {
  const Conversation& given = imported.conversation;
  const std::optional<std::string> settings = compact_object(given.settings);
  if (!settings) return not_an_object(path(), "settings");
  const auto count = static_cast<Id>(imported.messages.size());
  const Result<Id> before = reserve_messages(*database_, count);
  if (!before) return before.error();
  const bool has_root = given.selected_root > 0 && given.selected_root <= count;
  Status done = database_
                    ->prepare(
                        "INSERT INTO conversations(title, created_at, used_at, pinned, deleted_at, "
                        "system_prompt, settings, preset, selected_root) "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
                    .bind(1, valid_utf8(shortened(given.title, kMaxTitleBytes)))
                    .bind(2, given.created_at)
                    .bind(3, given.used_at)
                    .bind(4, int64_t{given.pinned})
                    .bind_or_null(5, mark != 0 ? mark : given.deleted_at)
                    .bind(6, valid_utf8(given.system_prompt))
                    .bind(7, *settings)
                    .bind(8, valid_utf8(given.preset))
                    .bind_or_null(9, has_root ? *before + given.selected_root : 0)
                    .run();
  place.id = database_->last_id();
  place.before = *before;
  place.message = 0;
  return done;
}

Status Store::import_part(Time mark, std::span<const ImportedConversation> conversations,
                          ImportPlace& place, std::chrono::milliseconds most) {
  const Clock::time_point end = Clock::now() + most;
  ImportPlace at;
  const auto broken = [&](Id id, const char* what) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("{}: imported message {}: {}", path(), id, what));
  };
  Status done = write([&]() -> Status {
    at = place;
    Statement row = inserts();
    while (at.conversation < conversations.size()) {
      const ImportedConversation& imported = conversations[at.conversation];
      const auto count = static_cast<Id>(imported.messages.size());
      if (at.id == 0) {
        if (Status made = insert_imported(mark, imported, at); !made.ok()) return made;
      }
      while (at.message < imported.messages.size()) {
        const Message& message = imported.messages[at.message];
        const auto number = static_cast<Id>(at.message) + 1;
        if (message.id != number) return broken(message.id, "expected ids 1, 2, 3, …");
        if (message.parent < 0 || message.parent >= number) {
          return broken(number, "expected a parent with a smaller id");
        }
        Message copy = message;
        copy.id += at.before;
        if (copy.parent != 0) copy.parent += at.before;
        const bool has_child = message.selected_child > 0 && message.selected_child <= count;
        copy.selected_child = has_child ? message.selected_child + at.before : 0;
        if (Status added = insert(row, at.id, copy); !added.ok()) return added;
        ++at.message;
        if (Clock::now() >= end) return {};
      }
      at = {.conversation = at.conversation + 1};
      if (Clock::now() >= end) return {};
    }
    return {};
  });
  if (done.ok()) place = at;
  return done;
}

Result<Id> Store::add_imported(const ImportedConversation& imported) {
  ImportPlace place;
  Id id = 0;
  const Status done = database_->transaction([&]() -> Status {
    using namespace std::chrono_literals;
    do {
      if (Status added = import_part(0, {&imported, 1}, place, 0ms); !added.ok()) return added;
      if (place.id != 0) id = place.id;
    } while (place.conversation == 0);
    if (id == 0) id = database_->last_id();
    return {};
  });
  if (!done.ok()) return tl::unexpected(done);
  return id;
}

Status Store::show_import(Time mark, int64_t conversations, const std::vector<Preset>& presets) {
  return write([&]() -> Status {
    Status shown =
        database_->prepare("UPDATE conversations SET deleted_at = NULL WHERE deleted_at = ?1")
            .bind(1, mark)
            .run();
    if (!shown.ok()) return shown;
    if (database_->changes() != conversations) {
      return {StatusCode::io, fmt::format("{}: another process has ended the import: import the "
                                          "file again",
                                          path())};
    }
    if (presets.empty()) return {};
    const Result<std::vector<Preset>> known = this->presets();
    if (!known) return known.error();
    std::set<std::string> names;
    for (const Preset& preset : *known) names.insert(preset.name);
    for (const Preset& preset : presets) {
      if (!names.insert(preset.name).second) continue;
      if (Status saved = save_preset(preset); !saved.ok()) return saved;
    }
    return {};
  });
}

Status Store::abandon_import(Time mark) {
  needs_cleaning_ = true;
  return write([&] {
    return database_->prepare("UPDATE conversations SET deleted_at = -1 WHERE deleted_at = ?1")
        .bind(1, mark)
        .run();
  });
}

Status Store::clean(std::chrono::milliseconds most) {
  const Clock::time_point end = Clock::now() + most;
  Status done = write([&] { return clean_until(end); });
  if (!done.ok()) needs_cleaning_ = false;
  return done;
}

Status Store::clean_until(Clock::time_point end) {
  do {
    // What was added last is at the end of the table.
    const Result<Id> id = database_->integer(
        "SELECT id FROM conversations WHERE deleted_at = -1 ORDER BY id DESC LIMIT 1");
    if (!id) return id.error();
    if (*id == 0) {
      needs_cleaning_ = false;
      return {};
    }
    Statement message = database_->prepare(
        "DELETE FROM messages WHERE id = (SELECT max(id) FROM messages WHERE conversation = ?1)");
    int64_t deleted = 0;
    do {
      if (Status done = message.bind(1, *id).run(); !done.ok()) return done;
      deleted = database_->changes();
    } while (deleted > 0 && Clock::now() < end);
    if (deleted > 0) return {};
    Status done = database_->prepare("DELETE FROM conversations WHERE id = ?1").bind(1, *id).run();
    if (!done.ok()) return done;
  } while (Clock::now() < end);
  return {};
}

}  // namespace infer::conversations
