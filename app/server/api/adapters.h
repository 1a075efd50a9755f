// Which adapters of a model a request is computed with.
#pragma once

#include <vector>

#include "server/api/fields.h"
#include "server/models/model.h"

namespace infer::server {

/// The factors of a request's field `lora`, [{"id": 0, "scale": 0.5}]: an adapter that it does not
/// name has 0. Without the field those of the model. Throws Problem.
std::vector<float> read_adapters(Fields& fields, const ServedModel& model);

}  // namespace infer::server
