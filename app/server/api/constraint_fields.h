// Fields that say what form the answer must have.
#pragma once

#include "server/api/fields.h"
#include "server/generation/completion.h"

namespace infer::server {

/// `response_format` of OpenAI's interface, llama.cpp's `json_schema` and `grammar`, vLLM's
/// `guided_…` and `structured_outputs`. Throws Problem, also for forms that cannot be held.
void read_constraints(Fields& fields, CompletionRequest& request);

/// The object {"type": "json_schema", "schema": …} or one of another type, as OpenAI's responses
/// and Anthropic's messages have it.
void read_described_format(Fields& described, CompletionRequest& request);

}  // namespace infer::server
