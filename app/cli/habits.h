// Flags of llama.cpp's programs that do not exist here. If the program does anyway what the flag
// asks for, the flag is accepted. Otherwise it is refused, with another way to get it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace infer::cli {

/// True if `name` is such a flag of a command that loads a model. `value`: the text after '=', if
/// there is one; otherwise the flag's value is words[at], and `at` moves past it. Prints a line if
/// the flag has no effect that the user would notice. Throws Failure (usage) if continuing would do
/// something else than the flag asks for.
bool take_habit(const std::string& command, const std::string& name,
                const std::optional<std::string>& value, std::span<const std::string> words,
                size_t& at);

}  // namespace infer::cli
