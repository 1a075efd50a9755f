// Which tools an answer may call, and whether it has to call one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/fields.h"
#include "server/generation/completion.h"

namespace infer::server {

/// `tool_choice` of OpenAI's chat interface.
struct ToolChoice {
  enum class Mode { automatic, none, required };
  Mode mode = Mode::automatic;
  std::string function;                             ///< the one that is required; empty: any
  std::optional<std::vector<std::string>> allowed;  ///< the others are as if they were not there
};

/// Throws Problem if it has no known form.
ToolChoice read_tool_choice(Fields& fields);

/// Those of the tools that may be called. Throws Problem if an allowed one is not among them.
Json allowed_tools(Fields& fields, const ToolChoice& choice, const Json& tools);

/// If a call is required, what is generated must be its JSON. `tools`: those that may be called,
/// checked. Throws Problem.
void force_tool(Fields& fields, const ToolChoice& choice, const Json& tools,
                CompletionRequest& request);

/// Holds the calls that an answer may have to these tools, if the model's format has a grammar for
/// it; beside a schema, an answer may then have calls. False: nothing is changed. Throws Problem.
bool hold_calls(const Json& tools, CompletionRequest& request);

}  // namespace infer::server
