// What chat templates expect of a conversation, made of what clients and programs give.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "infer/infer.hpp"

namespace infer::chat {

/// The text that a model continues. `variables`: an object with "messages", in the form of OpenAI's
/// API but with the arguments of calls as objects, and with what else the template is to see.
///
/// Templates are made for other programs, which fill in what a client may leave out:
/// - Tools get a type, a description and parameters.
/// - Reasoning of earlier answers stands in all of "reasoning_content", "thinking" and "reasoning",
///   whichever it came in.
/// - Calls get ids. Results get the id of the call that they answer, in order, and its name.
/// - Whether to think is said by all names that templates have for it, if one of them is given.
///
/// If the template then fails, other forms of the same conversation are tried: ids of 9 letters and
/// digits; calls of one message in a message each; reasoning and text before calls in one;
/// arguments as text. A form with which it fails elsewhere is kept for the next ones.
///
/// With "continue_final_message": true the text ends with the content of the last message, which
/// is of the assistant.
///
/// invalid_argument: the template's failure with the first form. unsupported: the template does not
/// show the content of the last message as it is.
Result<std::string> render_conversation(const ChatTemplate& chat_template,
                                        nlohmann::ordered_json variables);

}  // namespace infer::chat
