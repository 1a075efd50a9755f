// JSON texts that the store keeps. Texts go in and come out, so that this header stays light.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conversations/types.h"
#include "infer/status.hpp"

namespace infer::conversations {

/// A JSON object without white space and with sorted members. Nothing if the text is something
/// else. Compacting twice changes nothing.
std::optional<std::string> compact_object(std::string_view text);

/// The JSON text with U+FFFD in place of bytes that are not UTF-8 and of halves of surrogate pairs.
std::string repaired_json(std::string_view text);

/// The error for a text that is no JSON object: "`where`: `field`: expected a JSON object".
Status not_an_object(std::string_view where, std::string_view field);

std::string tool_calls_text(const std::vector<ToolCall>& calls);
/// What is not a list of calls becomes an empty list.
std::vector<ToolCall> tool_calls_of(std::string_view text);

}  // namespace infer::conversations
