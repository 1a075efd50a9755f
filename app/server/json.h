// JSON from outside. Its text is looked at before it is parsed: deep nesting would exhaust the
// stack, objects with very many names take quadratic time, and small values much memory.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace infer::server {

using Json = nlohmann::ordered_json;

/// Why a text may not be parsed: "it is nested deeper than 100 levels". Takes linear time.
std::optional<std::string> json_excess(std::string_view text);
/// A discarded value if the text is no JSON or may not be parsed.
Json parse_json(std::string_view text);
/// On one line; what is not UTF-8 is replaced.
std::string write_json(const Json& json);

}  // namespace infer::server
