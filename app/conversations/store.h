// Conversations in an SQLite file. Docs: docs/conversations.md.
//
// A conversation is a tree of messages. Messages with the same parent are alternatives: an edited
// question is a sibling of the question, a regenerated answer a sibling of the answer. One of the
// alternatives is selected at each place; the selected ones from the first message on are what is
// shown (Tree::shown).
//
// When a call returns ok, what it wrote survives the end of the process and a power cut. A call
// that fails changes nothing. Errors, besides those named: io, busy (another program has the file
// locked), bad_file, out_of_memory, invalid_argument for texts above 64 MiB; all name the file.
//
// Texts are UTF-8. Bytes that are not become U+FFFD.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conversations/search.h"
#include "conversations/sqlite.h"
#include "conversations/tree.h"
#include "conversations/types.h"

namespace infer::platform {
class OpenFile;
}

namespace infer::conversations {

/// "infer/conversations.db" in $XDG_DATA_HOME, else in ~/.local/share. Errors: not_found if neither
/// XDG_DATA_HOME nor HOME is set.
Result<std::string> default_path();

struct OpenOptions {
  int busy_ms = 3000;           ///< how long a call waits for another program
  std::function<Time()> clock;  ///< default: the system's
};

/// What was found when the file was opened.
struct OpenReport {
  /// Where a damaged file was moved to. Empty: the file was sound.
  std::string set_aside;
  std::string damage;  ///< what was wrong with it
  int64_t recovered_conversations = 0;
  int64_t recovered_messages = 0;
};

/// What a new message has. The store adds the id and the time.
struct NewMessage {
  Id parent = 0;  ///< 0: a first message
  Role role = Role::user;
  State state = State::complete;
  std::string text;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  std::string model;
  Statistics statistics;
};

/// How an answer ended.
struct AnswerEnd {
  State state = State::complete;  ///< complete or stopped
  std::vector<ToolCall> tool_calls;
  Statistics statistics;
};

/// A conversation with all its messages, for import.
struct ImportedConversation {
  Conversation conversation;  ///< without an id; selected_root is an id of `messages`
  /// Ids are 1, 2, 3, …; parents come first.
  std::vector<Message> messages;
};

/// How far a part of an import has come: in conversations and in messages of the next one.
struct ImportPlace {
  size_t conversation = 0;
  size_t message = 0;
  Id id = 0;      ///< of the conversation in the store; 0: it is not there yet
  Id before = 0;  ///< the id in the store is that in the file and this
};

/// One thread at a time. See AsyncStore for a face that never waits.
class Store {
 public:
  /// Makes the folder and the file if they are missing. A damaged file is moved aside, what can be
  /// read of it is recovered, and `report` (may be null) says so. Errors: unsupported if a newer
  /// version of infer wrote the file or another program.
  static Result<std::unique_ptr<Store>> open(const std::string& path, OpenReport* report,
                                             OpenOptions options = {});
  /// A store in memory with what the file has, as far as that can be read: for a file that cannot
  /// be opened. Nothing of what is written there is kept.
  static Result<std::unique_ptr<Store>> open_in_memory(const std::string& path,
                                                       OpenOptions options = {});
  ~Store();

  // ---- Conversations. Unknown ids: not_found.

  /// Takes title, system prompt, settings and preset. Errors: invalid_argument if the settings are
  /// no JSON object.
  Result<Conversation> create(const Conversation& wanted);
  /// Pinned ones first, then by last use, the latest first. `most`: how many at most.
  Result<std::vector<Conversation>> list(int64_t most = -1, int64_t skip = 0);
  /// Those in the trash, the latest first.
  Result<std::vector<Conversation>> trash();
  Result<Conversation> conversation(Id id);
  Result<Tree> load(Id id);

  Status rename(Id id, std::string_view title);
  Status set_pinned(Id id, bool pinned);
  /// System prompt, settings and preset.
  Status configure(Id id, std::string_view system_prompt, std::string_view settings,
                   std::string_view preset);
  Status move_to_trash(Id id);
  Status restore(Id id);
  /// Deletes conversations and messages that were moved to the trash before `before`, for good.
  /// Returns how many conversations.
  Result<int64_t> empty_trash(Time before);

  // ---- Messages. What is added is selected, and the conversation counts as used.

  Result<Message> add(Id conversation, const NewMessage& message);
  /// Adds a sibling with another text: role and parent are those of `message`.
  Result<Message> edit(Id message, std::string_view text);
  /// Adds an empty sibling in State::writing: another answer to the same question.
  Result<Message> regenerate(Id message, std::string_view model);
  /// Puts an answer back into State::writing; what is appended continues it.
  Status resume(Id message);
  /// Adds to the end of an answer, whole characters. Costs as much as the pieces, whatever the
  /// length of the answer.
  Status append(Id message, std::string_view text, std::string_view reasoning);
  /// Ends an answer.
  Status finish(Id message, const AnswerEnd& end);
  /// Shows this message of its siblings.
  Status select(Id message);
  /// Moves a message and all below it to the trash.
  Status move_message_to_trash(Id message);
  /// Brings back what move_message_to_trash() moved.
  Status restore_message(Id message);
  /// Deletes for good an answer that has no text and no calls and nothing after it. Any other
  /// message stays as it is.
  Status delete_if_empty(Id answer);
  /// Messages that restore_message() takes, of conversations that are not in the trash, the latest
  /// first.
  Result<std::vector<TrashedMessage>> trashed_messages(int64_t most = 200);

  /// Messages and titles that contain all words of the query, or words that begin with them, the
  /// best first. Words in quotation marks are a phrase. Any text is a query. What is in the trash
  /// or being written is not found. Of very many matches the newest are ranked; beginnings of one
  /// or two letters are looked for in the newest messages alone.
  Result<std::vector<Hit>> search(std::string_view query, int64_t most = kUsualHits);

  // ---- Presets, by name.

  Result<std::vector<Preset>> presets();
  /// Replaces one of the same name. Errors: invalid_argument without a name.
  Status save_preset(const Preset& preset);
  Status delete_preset(std::string_view name);

  // ---- Import

  /// Adds a conversation as it is. Errors: invalid_argument if its messages are no tree.
  Result<Id> add_imported(const ImportedConversation& imported);

  // An import in parts. Nothing of it is seen until show_import(). If that does not come, also
  // because the process ends, what was added is deleted later.

  /// Marks the conversations of one import. No two have the same mark.
  Time begin_import();
  /// Adds conversations from `place` on, which moves, for about `most`, and at least one message.
  /// Errors: as add_imported().
  Status import_part(Time mark, std::span<const ImportedConversation> conversations,
                     ImportPlace& place, std::chrono::milliseconds most);
  /// Shows all `conversations` of the import, and adds presets whose names are free.
  Status show_import(Time mark, int64_t conversations, const std::vector<Preset>& presets);
  Status abandon_import(Time mark);
  /// Whether something is left of imports that were abandoned.
  bool needs_cleaning() const { return needs_cleaning_; }
  /// Deletes that, for about `most`. After a failure only the next opening tries again.
  Status clean(std::chrono::milliseconds most);
  /// Runs `work`, whose calls to the store are kept together or not at all.
  Status together(const std::function<Status()>& work);

  const std::string& path() const { return database_->path(); }
  /// Whether the file is not there any more, or another one is: calls that write fail with io. The
  /// system is asked at most once a second.
  bool is_moved() { return database_->is_moved(); }
  /// Of a store whose file is gone: writes all that it has to its path, and opens that in its
  /// place. Errors: io, also if another file is there; then the store stays as it is. It is null if
  /// the new file cannot be opened.
  static Status write_anew(std::unique_ptr<Store>& store);

 private:
  Store(std::unique_ptr<Database> database, OpenOptions options,
        std::unique_ptr<platform::OpenFile> lock);
  Status prepare();
  /// Answers that no process is writing any more become stopped ones, and imports are abandoned.
  Status end_interrupted();
  /// A transaction. If the search index turns out damaged, it is built again, and `work` runs
  /// again.
  Status write(const std::function<Status()>& work);
  Status rebuild_index();
  Time now();
  Status not_found(const char* what, Id id) const;
  /// Ok if the last statement changed a row.
  Status require_change(Status done, const char* what, Id id);
  Result<Message> message(Id id, Id* conversation);
  Statement inserts();
  Status insert(Statement& row, Id conversation, Message& message);
  Status insert_imported(Time mark, const ImportedConversation& imported, ImportPlace& place);
  Status clean_until(std::chrono::steady_clock::time_point end);
  Status select_child(Id conversation, Id parent, Id child);
  Status touch(Id conversation);
  Status merge_pieces(Id message);

  // Says that the store is open; goes after the file. Null: the store is in memory.
  std::unique_ptr<platform::OpenFile> lock_;
  std::unique_ptr<Database> database_;
  OpenOptions options_;
  Time last_time_ = 0;
  bool needs_cleaning_ = false;
};

}  // namespace infer::conversations
