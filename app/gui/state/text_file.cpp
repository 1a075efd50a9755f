#include "gui/state/text_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "conversations/utf8.h"
#include "gui/text/markdown.h"
#include "gui/text/sanitise.h"

namespace infer::gui {
namespace {

constexpr size_t kMostEndingBytes = 10;

/// The ending of a name as the language of a block of code: letters and digits.
std::string language_of(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending.size() < 2 || ending.size() > kMostEndingBytes) return {};
  const bool plain = std::ranges::all_of(ending.substr(1), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  return plain ? ending.substr(1) : std::string();
}

}  // namespace

Result<std::optional<std::string>> read_text_file(const std::string& path) {
  std::error_code unknown;
  const bool model = path.ends_with(".gguf") || path.ends_with(".safetensors");
  if (model || !std::filesystem::is_regular_file(path, unknown)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostTextFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) return std::nullopt;
  text.resize(static_cast<size_t>(file.gcount()));
  const bool whole = text.size() <= kMostTextFileBytes;
  if (!whole) text = conversations::shortened(text, kMostTextFileBytes);
  if (text.find('\0') != std::string::npos || !conversations::is_valid_utf8(text)) {
    return std::nullopt;
  }
  if (!whole) {
    return tl::unexpected(Status(
        StatusCode::bad_file,
        path + ": a text of more than 1 MiB is too long for a message; attach a part of it"));
  }
  return text;
}

bool looks_like_conversations(std::string_view json) {
  const auto has = [&](std::string_view member) {
    return json.find("\"" + std::string(member) + "\"") != std::string_view::npos;
  };
  return has("infer-conversations") || (has("mapping") && (has("current_node") || has("author"))) ||
         (has("messages") && has("versions") && has("currentlySelected"));
}

std::string quoted_file(const std::string& path, std::string_view text) {
  const std::string name = std::filesystem::path(path).filename().string();
  return one_line(name, kNameBytes) + ":\n" + fenced(sanitise(text), language_of(path));
}

}  // namespace infer::gui
