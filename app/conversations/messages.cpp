// The part of the store that changes messages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "conversations/json.h"
#include "conversations/store.h"
#include "conversations/utf8.h"

namespace infer::conversations {
namespace {

constexpr std::string_view kColumns =
    "id, parent, selected_child, role, state, text, reasoning, tool_calls, created_at, model, "
    "prompt_tokens, generated_tokens, prompt_rate, generate_rate, first_token_seconds, "
    "conversation";
constexpr int kConversationColumn = 15;

Role role_of(std::string_view name) {
  for (const Role role : {Role::system, Role::assistant, Role::tool}) {
    if (name == role_name(role)) return role;
  }
  return Role::user;
}

State state_of(std::string_view name) {
  for (const State state : {State::writing, State::stopped}) {
    if (name == state_name(state)) return state;
  }
  return State::complete;
}

double finite(double value) { return std::isfinite(value) ? value : 0; }

Message read_message(Statement& row) {
  Message m;
  m.id = row.integer(0);
  m.parent = row.integer(1);
  m.selected_child = row.integer(2);
  m.role = role_of(row.text(3));
  m.state = state_of(row.text(4));
  m.text = row.text(5);
  m.reasoning = row.text(6);
  m.tool_calls = tool_calls_of(row.text(7));
  m.created_at = row.integer(8);
  m.model = row.text(9);
  m.statistics = {row.integer(10), row.integer(11), finite(row.real(12)), finite(row.real(13)),
                  finite(row.real(14))};
  return m;
}

Statement& bind_statistics(Statement& statement, int first, const Statistics& s) {
  return statement.bind(first, s.prompt_tokens)
      .bind(first + 1, s.generated_tokens)
      .bind(first + 2, finite(s.prompt_rate))
      .bind(first + 3, finite(s.generate_rate))
      .bind(first + 4, finite(s.first_token_seconds));
}

void make_valid(std::vector<ToolCall>& calls) {
  for (ToolCall& call : calls) {
    for (std::string* text : {&call.id, &call.name, &call.arguments, &call.result}) {
      *text = valid_utf8(*text);
    }
  }
}

constexpr std::string_view kInsert =
    "INSERT INTO messages(conversation, parent, role, state, text, reasoning, tool_calls, "
    "created_at, model, prompt_tokens, generated_tokens, prompt_rate, generate_rate, "
    "first_token_seconds, id, selected_child) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

/// All messages from ?1 down.
constexpr std::string_view kBelow =
    "WITH RECURSIVE below(id) AS (VALUES (?1) UNION "
    "SELECT messages.id FROM messages JOIN below ON messages.parent = below.id) ";

}  // namespace

Result<Tree> Store::load(Id id) {
  Result<Conversation> conversation = this->conversation(id);
  if (!conversation) return tl::unexpected(conversation.error());
  std::vector<Message> messages;
  Statement rows = database_->prepare(
      fmt::format("SELECT {} FROM messages WHERE conversation = ?1 AND deleted_at IS NULL AND "
                  "id > 0 ORDER BY id",
                  kColumns));
  rows.bind(1, id);
  while (rows.step()) messages.push_back(read_message(rows));
  if (!rows.status().ok()) return tl::unexpected(rows.status());
  Statement pieces = database_->prepare(
      "SELECT message, pieces.text, pieces.reasoning FROM pieces JOIN messages ON "
      "messages.id = message WHERE conversation = ?1 ORDER BY pieces.id");
  pieces.bind(1, id);
  while (pieces.step()) {
    const Id wanted = pieces.integer(0);
    const auto found = std::ranges::lower_bound(messages, wanted, {}, &Message::id);
    if (found == messages.end() || found->id != wanted) continue;  // in the trash
    found->text += pieces.text(1);
    found->reasoning += pieces.text(2);
  }
  if (!pieces.status().ok()) return tl::unexpected(pieces.status());
  return Tree(std::move(*conversation), std::move(messages));
}

/// A message that is not in the trash, without what was appended since it was written.
Result<Message> Store::message(Id id, Id* conversation) {
  Statement row = database_->prepare(
      fmt::format("SELECT {} FROM messages WHERE id = ?1 AND deleted_at IS NULL", kColumns));
  if (!row.bind(1, id).step()) {
    return tl::unexpected(row.status().ok() ? not_found("message", id) : row.status());
  }
  *conversation = row.integer(kConversationColumn);
  return read_message(row);
}

Statement Store::inserts() { return database_->prepare(kInsert); }

/// Makes the texts valid, and sets the id if it has none. `row`: of inserts(); used again for many
/// messages.
Status Store::insert(Statement& row, Id conversation, Message& message) {
  for (std::string* text : {&message.text, &message.reasoning, &message.model}) {
    *text = valid_utf8(*text);
  }
  make_valid(message.tool_calls);
  row.bind(1, conversation)
      .bind_or_null(2, message.parent)
      .bind(3, std::string_view(role_name(message.role)))
      .bind(4, std::string_view(state_name(message.state)))
      .bind(5, message.text)
      .bind(6, message.reasoning)
      .bind(7, tool_calls_text(message.tool_calls))
      .bind(8, message.created_at)
      .bind(9, message.model)
      .bind_or_null(15, message.id)
      .bind_or_null(16, message.selected_child);
  Status done = bind_statistics(row, 10, message.statistics).run();
  message.id = database_->last_id();
  return done;
}

Status Store::select_child(Id conversation, Id parent, Id child) {
  const bool is_first = parent == 0;
  return database_
      ->prepare(is_first ? "UPDATE conversations SET selected_root = ?2 WHERE id = ?1"
                         : "UPDATE messages SET selected_child = ?2 WHERE id = ?1")
      .bind(1, is_first ? conversation : parent)
      .bind_or_null(2, child)
      .run();
}

Result<Message> Store::add(Id conversation, const NewMessage& wanted) {
  Message made;
  made.parent = wanted.parent;
  made.role = wanted.role;
  made.state = wanted.state;
  made.text = wanted.text;
  made.reasoning = wanted.reasoning;
  made.tool_calls = wanted.tool_calls;
  made.model = wanted.model;
  made.statistics = wanted.statistics;
  made.created_at = now();
  const Status done = write([&]() -> Status {
    if (Status touched = touch(conversation); !touched.ok()) return touched;
    if (made.parent != 0) {
      Id home = 0;
      const Result<Message> parent = message(made.parent, &home);
      if (!parent) return parent.error();
      if (home != conversation) return not_found("message", made.parent);
    }
    made.id = 0;  // also if this runs again
    Statement row = inserts();
    if (Status added = insert(row, conversation, made); !added.ok()) return added;
    return select_child(conversation, made.parent, made.id);
  });
  if (!done.ok()) return tl::unexpected(done);
  return made;
}

Result<Message> Store::edit(Id id, std::string_view text) {
  Id conversation = 0;
  const Result<Message> edited = message(id, &conversation);
  if (!edited) return edited;
  NewMessage sibling;
  sibling.parent = edited->parent;
  sibling.role = edited->role;
  sibling.text = text;
  return add(conversation, sibling);
}

Result<Message> Store::regenerate(Id id, std::string_view model) {
  Id conversation = 0;
  const Result<Message> answer = message(id, &conversation);
  if (!answer) return answer;
  NewMessage sibling;
  sibling.parent = answer->parent;
  sibling.role = answer->role;
  sibling.state = State::writing;
  sibling.model = model;
  return add(conversation, sibling);
}

Status Store::resume(Id id) {
  return write([&] {
    return require_change(
        database_->prepare("UPDATE messages SET state = 'writing' WHERE id = ?1").bind(1, id).run(),
        "message", id);
  });
}

Status Store::append(Id id, std::string_view text, std::string_view reasoning) {
  return write([&] {
    return require_change(database_
                              ->prepare("INSERT INTO pieces(message, text, reasoning) "
                                        "SELECT id, ?2, ?3 FROM messages WHERE id = ?1")
                              .bind(1, id)
                              .bind(2, valid_utf8(text))
                              .bind(3, valid_utf8(reasoning))
                              .run(),
                          "message", id);
  });
}

Status Store::merge_pieces(Id id) {
  std::string text, reasoning;
  Statement pieces =
      database_->prepare("SELECT text, reasoning FROM pieces WHERE message = ?1 ORDER BY id");
  pieces.bind(1, id);
  while (pieces.step()) {
    text += pieces.text(0);
    reasoning += pieces.text(1);
  }
  if (!pieces.status().ok()) return pieces.status();
  Status added = database_
                     ->prepare(
                         "UPDATE messages SET text = text || ?2, reasoning = reasoning || ?3 "
                         "WHERE id = ?1")
                     .bind(1, id)
                     .bind(2, text)
                     .bind(3, reasoning)
                     .run();
  // The text would be too long for a row: it stays in pieces.
  if (added.code() == StatusCode::invalid_argument) return {};
  if (!added.ok()) return added;
  return database_->prepare("DELETE FROM pieces WHERE message = ?1").bind(1, id).run();
}

Status Store::finish(Id id, const AnswerEnd& end) {
  std::vector<ToolCall> calls = end.tool_calls;
  make_valid(calls);
  return write([&]() -> Status {
    if (Status merged = merge_pieces(id); !merged.ok()) return merged;
    Statement row = database_->prepare(
        "UPDATE messages SET state = ?2, tool_calls = ?3, prompt_tokens = ?4, "
        "generated_tokens = ?5, prompt_rate = ?6, generate_rate = ?7, first_token_seconds = ?8 "
        "WHERE id = ?1");
    row.bind(1, id)
        .bind(2, std::string_view(state_name(end.state)))
        .bind(3, tool_calls_text(calls));
    return require_change(bind_statistics(row, 4, end.statistics).run(), "message", id);
  });
}

Status Store::select(Id id) {
  return write([&]() -> Status {
    Id conversation = 0;
    const Result<Message> chosen = message(id, &conversation);
    if (!chosen) return chosen.error();
    return select_child(conversation, chosen->parent, id);
  });
}

Status Store::move_message_to_trash(Id id) {
  return write([&]() -> Status {
    Id conversation = 0;
    if (const Result<Message> found = message(id, &conversation); !found) return found.error();
    return database_
        ->prepare(fmt::format("{} UPDATE messages SET deleted_at = ?2 "
                              "WHERE deleted_at IS NULL AND id IN (SELECT id FROM below)",
                              kBelow))
        .bind(1, id)
        .bind(2, now())
        .run();
  });
}

Status Store::delete_if_empty(Id id) {
  return write([&] {
    return database_
        ->prepare(
            "DELETE FROM messages WHERE id = ?1 AND role = 'assistant' AND text = '' "
            "AND reasoning = '' AND tool_calls = '[]' "
            "AND NOT EXISTS (SELECT 1 FROM pieces WHERE message = ?1) "
            "AND NOT EXISTS (SELECT 1 FROM messages WHERE parent = ?1)")
        .bind(1, id)
        .run();
  });
}

Status Store::restore_message(Id id) {
  return write([&]() -> Status {
    Statement row = database_->prepare(
        "SELECT m.deleted_at, p.deleted_at IS NOT NULL FROM messages m "
        "LEFT JOIN messages p ON p.id = m.parent WHERE m.id = ?1");
    if (!row.bind(1, id).step()) {
      return row.status().ok() ? not_found("message", id) : row.status();
    }
    const Time deleted_at = row.integer(0);
    if (row.integer(1) != 0) {
      return {StatusCode::invalid_argument,
              fmt::format("{}: message {}: the message before it is in the trash; restore that one",
                          path(), id)};
    }
    // What was moved there earlier by itself has another time and stays.
    return database_
        ->prepare(fmt::format("{} UPDATE messages SET deleted_at = NULL "
                              "WHERE deleted_at = ?2 AND id IN (SELECT id FROM below)",
                              kBelow))
        .bind(1, id)
        .bind(2, deleted_at)
        .run();
  });
}

Result<std::vector<TrashedMessage>> Store::trashed_messages(int64_t most) {
  constexpr int64_t kSnippetCharacters = 100;
  Statement rows = database_->prepare(
      "SELECT m.id, m.conversation, c.title, substr(m.text, 1, ?1), m.deleted_at FROM messages m "
      "JOIN conversations c ON c.id = m.conversation LEFT JOIN messages p ON p.id = m.parent "
      "WHERE m.deleted_at IS NOT NULL AND c.deleted_at IS NULL AND p.deleted_at IS NULL "
      "ORDER BY m.deleted_at DESC, m.id DESC LIMIT ?2");
  rows.bind(1, kSnippetCharacters).bind(2, most);
  std::vector<TrashedMessage> all;
  while (rows.step()) {
    all.push_back({rows.integer(0), rows.integer(1), rows.text(2), rows.text(3), rows.integer(4)});
  }
  if (!rows.status().ok()) return tl::unexpected(rows.status());
  return all;
}

}  // namespace infer::conversations
