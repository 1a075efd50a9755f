// Answers that have to be a call of a tool.
#pragma once

#include "server/api/fields.h"
#include "server/generation/completion.h"

namespace infer::server {

/// A call of the tool that `tool_choice` names, or of any: what is generated must be its JSON.
/// `tools`: those offered, checked. Throws Problem.
void force_tool(Fields& fields, const Json& tools, CompletionRequest& request);

}  // namespace infer::server
