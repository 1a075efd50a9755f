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
  Json images = Json::array();   ///< parts of the next message
  std::string last;              ///< speed and memory of the last answer
  bool failed = false;           ///< an answer failed (not only a command)
  bool answered = false;         ///< at least once
  bool told_of_dropped = false;  ///< the user knows that the model does not see all messages
};

/// What to do after a command: answer the messages, read the next line, or end the conversation.
enum class CommandResult { answer, read, leave };

/// Runs a command. Throws Failure if it is unknown or fails.
CommandResult run_chat_command(Chat& chat, const std::string& line);

/// A message of the person, with the images that wait for it.
Json user_message(Chat& chat, const std::string& text);

/// Adds an image to the next message. Throws Failure.
void attach_image(Chat& chat, const std::string& file);

/// Sets the system message, or removes it if the text is empty.
void set_system(Chat& chat, const std::string& text);

}  // namespace infer::cli
