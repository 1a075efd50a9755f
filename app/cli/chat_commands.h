// The commands within `infer chat`: lines that begin with a slash.
#pragma once

#include <memory>
#include <string>

#include "chat/conversation.h"
#include "cli/line_reader.h"

namespace infer::cli {

/// A running conversation.
struct Chat {
  Engine* engine = nullptr;
  LineReader* reader = nullptr;
  std::unique_ptr<chat::Conversation> conversation;
  GenerateOptions generate;
  std::string last;              ///< what is said of the last answer
  bool failed = false;           ///< an answer did, not only a command
  bool told_of_dropped = false;  ///< that the model does not see all messages
};

/// What follows a command: the messages as they stand are answered, the next line is read, or the
/// conversation ends.
enum class CommandResult { answer, read, leave };

/// Throws Failure for a command that is not known, or that cannot be done.
CommandResult run_chat_command(Chat& chat, const std::string& line);

/// Sets the system message, or removes it if the text is empty.
void set_system(Chat& chat, const std::string& text);

}  // namespace infer::cli
