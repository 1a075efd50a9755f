// JSON to values of the template language.
#pragma once

#include <string_view>

#include "engine/text/template/value.h"

namespace infer::jinja {

/// The members of a JSON object, in their order; integers of any size stay integers.
/// invalid_argument if it is not one.
Result<Value> read_variables(Budget& budget, std::string_view json);

}  // namespace infer::jinja
