// Searching texts in linear time. Charges what it reads; finds nothing once the budget is spent.
#pragma once

#include <string_view>

#include "engine/text/template/value.h"

namespace infer::jinja {

/// As text.find(what, from).
size_t find_text(Budget& budget, std::string_view text, std::string_view what, size_t from = 0);
/// As text.rfind(what).
size_t find_last_text(Budget& budget, std::string_view text, std::string_view what);

}  // namespace infer::jinja
