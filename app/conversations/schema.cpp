#include "conversations/schema.h"

#include <fmt/format.h>

namespace infer::conversations {
namespace {

// AUTOINCREMENT: an id is never used again, so that one that was kept never means something else.
// A parent has a smaller id than its children: there are no cycles, and rows in the order of their
// ids have parents first. Deleting is not passed on from parent to child by the database: SQLite
// does that by recursion of at most 1,000 levels.
//
// `pieces` holds what was added to a text since it was last written as a whole: adding to an answer
// does not write the text again.
//
// The search index keeps no copy of the texts. Triggers keep it in step. A message that is being
// written is not in it.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE conversations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  title TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  used_at INTEGER NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0,
  deleted_at INTEGER,
  system_prompt TEXT NOT NULL DEFAULT '',
  settings TEXT NOT NULL DEFAULT '{}',
  preset TEXT NOT NULL DEFAULT '',
  selected_root INTEGER
) STRICT;
CREATE INDEX conversations_by_use ON conversations(pinned, used_at);

CREATE TABLE messages(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
  parent INTEGER CHECK(parent < id),
  selected_child INTEGER,
  role TEXT NOT NULL CHECK(role IN ('system', 'user', 'assistant', 'tool')),
  state TEXT NOT NULL CHECK(state IN ('complete', 'writing', 'stopped')),
  text TEXT NOT NULL,
  reasoning TEXT NOT NULL DEFAULT '',
  tool_calls TEXT NOT NULL DEFAULT '[]',
  created_at INTEGER NOT NULL,
  deleted_at INTEGER,
  model TEXT NOT NULL DEFAULT '',
  prompt_tokens INTEGER NOT NULL DEFAULT 0,
  generated_tokens INTEGER NOT NULL DEFAULT 0,
  prompt_rate REAL NOT NULL DEFAULT 0,
  generate_rate REAL NOT NULL DEFAULT 0,
  first_token_seconds REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX messages_of_conversation ON messages(conversation, id);
CREATE INDEX messages_of_parent ON messages(parent);
CREATE INDEX messages_being_written ON messages(state) WHERE state = 'writing';

CREATE TABLE pieces(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  text TEXT NOT NULL,
  reasoning TEXT NOT NULL
) STRICT;
CREATE INDEX pieces_of_message ON pieces(message, id);

CREATE TABLE presets(
  name TEXT PRIMARY KEY,
  system_prompt TEXT NOT NULL,
  settings TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE search USING fts5(
  text, reasoning, content = 'messages', content_rowid = 'id',
  tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER message_added AFTER INSERT ON messages WHEN new.state <> 'writing' BEGIN
  INSERT INTO search(rowid, text, reasoning) VALUES (new.id, new.text, new.reasoning);
END;
CREATE TRIGGER message_removed AFTER DELETE ON messages WHEN old.state <> 'writing' BEGIN
  INSERT INTO search(search, rowid, text, reasoning)
    VALUES ('delete', old.id, old.text, old.reasoning);
END;
CREATE TRIGGER message_changed AFTER UPDATE OF text, reasoning, state ON messages BEGIN
  INSERT INTO search(search, rowid, text, reasoning)
    SELECT 'delete', old.id, old.text, old.reasoning WHERE old.state <> 'writing';
  INSERT INTO search(rowid, text, reasoning)
    SELECT new.id, new.text, new.reasoning WHERE new.state <> 'writing';
END;

CREATE VIRTUAL TABLE title_search USING fts5(
  title, content = 'conversations', content_rowid = 'id',
  tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER conversation_added AFTER INSERT ON conversations BEGIN
  INSERT INTO title_search(rowid, title) VALUES (new.id, new.title);
END;
CREATE TRIGGER conversation_removed AFTER DELETE ON conversations BEGIN
  INSERT INTO title_search(title_search, rowid, title) VALUES ('delete', old.id, old.title);
END;
CREATE TRIGGER conversation_renamed AFTER UPDATE OF title ON conversations BEGIN
  INSERT INTO title_search(title_search, rowid, title) VALUES ('delete', old.id, old.title);
  INSERT INTO title_search(rowid, title) VALUES (new.id, new.title);
END;
)sql";

constexpr const char* kVersion2 = R"sql(
CREATE INDEX messages_in_trash ON messages(deleted_at) WHERE deleted_at IS NOT NULL;
)sql";

Status newer(const Database& database, int64_t version, size_t known) {
  return {StatusCode::unsupported,
          fmt::format("{}: the file has schema version {}, and this program knows versions up to "
                      "{}; use a newer version of infer",
                      database.path(), version, known)};
}

}  // namespace

std::span<const char* const> migration_steps() {
  static constexpr const char* kSteps[] = {kVersion1, kVersion2};
  return kSteps;
}

Status check_version(Database& database, size_t newest) {
  // In this order: another process may make the tables meanwhile, and marks the file with them.
  const Result<int64_t> tables = database.integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  const Result<int64_t> version = database.integer("PRAGMA user_version");
  if (!version) return version.error();
  const Result<int64_t> owner = database.integer("PRAGMA application_id");
  if (!owner) return owner.error();
  if (*owner == kApplicationId) {
    const bool is_known = *version >= 0 && *version <= static_cast<int64_t>(newest);
    return is_known ? Status() : newer(database, *version, newest);
  }
  if (*owner == 0 && *version == 0 && *tables == 0) return {};  // a new file
  return {StatusCode::unsupported,
          fmt::format("{}: the file is a database of another program; move it away or choose "
                      "another file",
                      database.path())};
}

Status migrate(Database& database, std::span<const char* const> steps) {
  if (Status known = check_version(database, steps.size()); !known.ok()) return known;
  // Reading alone needs no lock: most often there is nothing to do.
  const auto newest = static_cast<int64_t>(steps.size());
  const Result<int64_t> seen = database.integer("PRAGMA user_version");
  if (!seen) return seen.error();
  if (*seen == newest) return {};
  return database.transaction([&]() -> Status {
    // Another process may have been faster.
    if (Status known = check_version(database, steps.size()); !known.ok()) return known;
    const Result<int64_t> version = database.integer("PRAGMA user_version");
    if (!version) return version.error();
    for (int64_t step = *version; step < newest; ++step) {
      const Status done = database.execute(steps[static_cast<size_t>(step)]);
      if (done.code() == StatusCode::internal) {  // the statement does not fit the tables
        return {StatusCode::bad_file,
                fmt::format("{}, which is not what schema version {} has", done.message(), step)};
      }
      if (!done.ok()) return done;
    }
    return database.execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, newest)
            .c_str());
  });
}

Status check_schema(Database& database) {
  Result<std::unique_ptr<Database>> fresh = Database::open(":memory:", 0);
  if (!fresh) return fresh.error();
  if (Status made = migrate(**fresh, migration_steps()); !made.ok()) return made;
  Statement expected =
      (*fresh)->prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  Statement found = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1 AND sql = ?2");
  while (expected.step()) {
    const std::string name = expected.text(0);
    const bool is_there = found.bind(1, name).bind(2, expected.text(1)).step();
    if (!found.status().ok()) return found.status();
    if (!is_there) {
      return {StatusCode::bad_file, fmt::format("{}: the table, index or trigger '{}' is missing "
                                                "or is not as expected",
                                                database.path(), name)};
    }
    found.reset();
  }
  if (!expected.status().ok()) return expected.status();
  // What a file from elsewhere would run by itself.
  Statement more = (*fresh)->prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1");
  Statement active =
      database.prepare("SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')");
  while (active.step()) {
    const std::string name = active.text(0);
    if (!more.bind(1, name).step()) {
      return {StatusCode::bad_file,
              fmt::format("{}: unexpected trigger or view '{}'", database.path(), name)};
    }
    more.reset();
  }
  return active.status();
}

}  // namespace infer::conversations
