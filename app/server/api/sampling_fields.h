// The fields that say how a text is generated, the same in all APIs.
#pragma once

#include "server/api/fields.h"
#include "server/generation/completion.h"
#include "server/models/model.h"

namespace infer::server {

/// All samplers by their names in samplers.def and those that other servers have for them, their
/// order (`samplers`), `dry_sequence_breakers`, `seed`, `logit_bias`, `stop`, what the text must
/// match (`response_format`, `json_schema`, `grammar`) and the adapters (`lora`). Throws Problem.
void read_generation(Fields& fields, const ServedModel& model, CompletionRequest& request);

}  // namespace infer::server
