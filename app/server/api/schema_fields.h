// JSON schemas that hold what is generated.
#pragma once

#include <string>

#include "server/generation/completion.h"
#include "server/json.h"

namespace infer::server {

/// Throws Problem if a schema names values that the server did not read as they were sent. `field`:
/// its path in the request, for messages.
void check_schema(const std::string& field, const Json& schema);

/// Holds the answer to a schema, which is checked.
void hold_to_schema(const std::string& field, const Json& schema, CompletionRequest& request);

/// Makes the references of a schema that is part of another one refer to the same places there.
/// `at`: where it is, as a JSON pointer behind "#". `id`: its own name, if it has one.
void move_references(Json& schema, const std::string& at, const std::string& id);

}  // namespace infer::server
