// The fields that say how a text is generated, the same in all APIs.
#pragma once

#include "infer/infer.hpp"
#include "server/api/fields.h"

namespace infer::server {

/// All samplers by their names in samplers.def and those that other servers have for them, `seed`,
/// `logit_bias`, `stop`, and what the text must match (`response_format`, `json_schema`,
/// `grammar`). Throws Problem.
void read_generation(Fields& fields, const Engine& engine, GenerateOptions& options);

}  // namespace infer::server
