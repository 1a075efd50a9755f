// Reads conversations from files of three formats, which it tells apart by what they hold:
// - the project's own (export.h);
// - ChatGPT's export: conversations.json, an array of conversations with a `mapping` of nodes;
// - LM Studio's: *.conversation.json, an object with `messages` that have `versions`.
//
// One conversation is in memory at a time, or several short ones; the file may be of any size.
// Errors: bad_file with the file, the field and what was expected; unsupported for a newer version
// of the project's format; io.
#pragma once

#include <atomic>
#include <functional>
#include <istream>
#include <string>

#include "conversations/store.h"

namespace infer::conversations {

struct ImportReport {
  std::string format;  ///< "infer", "ChatGPT" or "LM Studio"
  int64_t conversations = 0;
  int64_t messages = 0;
  int64_t presets = 0;
};

/// Takes what was read. A failure ends the reading.
struct ImportSink {
  std::function<Status(const ImportedConversation&)> conversation;
  std::function<Status(const Preset&)> preset;
};

/// `name`: of the file, for errors.
Result<ImportReport> read_conversations(std::istream& in, const std::string& name,
                                        const ImportSink& sink);

/// What another thread may see of an import, and do to it.
struct ImportControl {
  std::atomic<bool> is_cancelled = false;
  std::atomic<double> share = 0;  ///< of the file that was read
};

/// Runs a part of an import with the store, some milliseconds of work, and returns what it returns.
using RunPart = std::function<Status(const std::function<Status(Store&)>& part)>;

/// Adds all conversations of a file, or none if there is an error. Presets whose names exist are
/// not replaced. Between two parts the store may be used otherwise; nothing of the import is seen
/// until all is there. Errors, besides: cancelled.
Result<ImportReport> import_file(const RunPart& run, const std::string& path,
                                 ImportControl& control);
/// The same without a pause.
Result<ImportReport> import_file(Store& store, const std::string& path);

}  // namespace infer::conversations
