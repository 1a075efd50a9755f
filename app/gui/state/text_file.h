// Files that are dropped on the window and go into the message as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "infer/status.hpp"

namespace infer::gui {

/// The longest file that goes into a message, in bytes.
inline constexpr size_t kMostTextFileBytes = size_t{1} << 20;

/// The text of a file in UTF-8, or in UTF-16 with a byte order mark. Nothing: it is a model's by
/// its name or its first bytes, or no file that can be read. bad_file: it is a text and longer than
/// kMostTextFileBytes, or neither a model nor such a text.
Result<std::optional<std::string>> read_text_file(const std::string& path);

/// Whether a JSON text looks like exported conversations. What it holds may still be wrong.
bool looks_like_conversations(std::string_view json);

/// Markdown: the file's name, and the text as a block of code.
std::string quoted_file(const std::string& path, std::string_view text);

/// What follows the blank lines and quoted files at the begin of a text. `name`: gets that of the
/// first file if it is empty.
std::string_view after_quoted_files(std::string_view text, std::string& name);

}  // namespace infer::gui
