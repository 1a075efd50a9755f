// Messages and tools as clients send them, in the form that chat templates expect.
#pragma once

#include "server/api/api.h"
#include "server/api/fields.h"
#include "server/generation/completion.h"

namespace infer::server {

/// What a request may hold at most.
inline constexpr size_t kMostMessages = 100'000;
inline constexpr size_t kMostTools = 1000;

/// The messages of OpenAI's chat API: texts in parts are joined where no part is an image,
/// arguments of calls become objects. Throws Problem.
Json read_messages(Fields& fields);

/// The name of a tool that may be called. Throws Problem if it has none.
std::string read_tool_name(Fields& tool);

/// The role of a message. Throws Problem if it has no known one.
std::string read_role(Fields& message);

/// The field `name`: null if absent, a string, or the texts of an array of parts in one. With
/// images among the parts, an array of texts and of images as chat::image_part() makes them. Throws
/// Problem.
Json read_content(Fields& message, const char* name = "content");

/// Whether an answer can begin in this message, an object: it is a text of the assistant, without
/// calls.
bool can_continue(const Json& message);

/// Variables of the template: "messages", "tools", those of chat_template_kwargs, and whether the
/// last message is continued. `declared`: gets the tools with "strict", which is not for templates.
Json template_variables(Fields& fields, Json* declared = nullptr);

/// Throws TakesLong if the template may take long for these variables and the call does not run
/// beside others yet.
void require_turn(const Call& call, const Json& variables);

/// The same, rendered and as tokens; with `tool_choice`, which may hold the answer to a call. A
/// request with images has its place from here on.
void read_chat(const Call& call, Fields& fields, CompletionRequest& request);

/// The id of a call in the answer `choice`: the model's own, or a new one.
std::string call_id(const Request& request, const ToolCall& call, int choice, size_t index);

}  // namespace infer::server
