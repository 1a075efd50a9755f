// Flags of llama.cpp's programs that are no flags here: what they ask for is done anyway, or there
// is another way to it. They are accepted, or refused with that way.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace infer::cli {

/// Whether `name` is such a flag of a command that loads a model. `value` is what stood after '=';
/// otherwise a value that the flag takes is words[at], and `at` moves past it. Prints a line where
/// the flag does nothing that its user would not notice. Throws Failure (usage) where going on
/// would do something else than was asked for.
bool take_habit(const std::string& command, const std::string& name,
                const std::optional<std::string>& value, std::span<const std::string> words,
                size_t& at);

}  // namespace infer::cli
