#include "gui/state/text_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "conversations/utf8.h"
#include "gui/text/markdown.h"
#include "gui/text/sanitise.h"
#include "gui/text/utf8.h"

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

/// Where a quoted file ends whose name is the line [begin, line); 0: it is none. A name has the
/// ending that the block has as its language, so that what a person writes above a block of code
/// stays.
size_t quoted_end(std::string_view text, size_t begin, size_t line, std::string_view& name) {
  const std::string_view head = text.substr(begin, line - begin);
  if (!head.ends_with(":\n")) return 0;
  name = head.substr(0, head.size() - 2);
  const size_t code = text.find('\n', line);
  const size_t ticks = std::min(text.find_first_not_of('`', line), text.size()) - line;
  if (code == std::string_view::npos || ticks < 3) return 0;
  const std::string_view language = text.substr(line + ticks, code - line - ticks);
  const bool plain = language.empty() && name.find(' ') == std::string_view::npos &&
                     name.find('.') != std::string_view::npos;
  if (!plain && (language.empty() || !name.ends_with("." + std::string(language)))) return 0;
  const std::string fence = "\n" + std::string(text.substr(line, ticks));
  for (size_t at = code; (at = text.find(fence, at)) != std::string_view::npos; ++at) {
    const size_t end = at + fence.size();
    if (end == text.size()) return end;
    if (text[end] == '\n') return end + 1;
  }
  return 0;
}

/// Whether a file begins as GGUF, or as safetensors do: 8 bytes of length, then JSON.
bool begins_as_model(std::string_view bytes) {
  constexpr size_t kLength = 8;
  const bool json = bytes.size() > kLength && bytes[kLength] == '{';
  return bytes.starts_with("GGUF") ||
         (json && bytes.substr(0, kLength).find('\0') != std::string_view::npos);
}

/// The text of bytes in UTF-8, or in UTF-16 with a mark at the begin. Nothing: they are neither.
std::optional<std::string> text_of(std::string bytes) {
  const bool little = bytes.starts_with("\xFF\xFE");
  if (little || bytes.starts_with("\xFE\xFF")) {
    const auto unit = [&](size_t at) -> char32_t {
      const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
      return little ? byte(at) | byte(at + 1) << 8 : byte(at) << 8 | byte(at + 1);
    };
    std::string text;
    if (bytes.size() % 2 != 0) return std::nullopt;
    for (size_t at = 2; at < bytes.size(); at += 2) {
      char32_t code = unit(at);
      if (code >= 0xD800 && code < 0xE000) {
        at += 2;
        const char32_t low = at < bytes.size() ? unit(at) : 0;
        if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return std::nullopt;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
      append_utf8(text, code);
    }
    bytes = std::move(text);
  }
  const bool is_text = bytes.find('\0') == std::string::npos && conversations::is_valid_utf8(bytes);
  return is_text ? std::optional(std::move(bytes)) : std::nullopt;
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
  if (begins_as_model(text)) return std::nullopt;
  const bool whole = text.size() <= kMostTextFileBytes;
  if (!whole) text = conversations::shortened(text, kMostTextFileBytes);
  std::optional<std::string> read = text_of(std::move(text));
  if (!read) {
    return tl::unexpected(Status(
        StatusCode::bad_file,
        path + ": neither a model (GGUF, safetensors) nor a text in UTF-8; if it is a text in "
               "another encoding, save it as UTF-8"));
  }
  if (!whole) {
    return tl::unexpected(Status(
        StatusCode::bad_file,
        path + ": a text of more than 1 MiB is too long for a message; attach a part of it"));
  }
  return read;
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

std::string_view after_quoted_files(std::string_view text, std::string& name) {
  for (size_t at = 0; at < text.size();) {
    const size_t line = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view file;
    if (text.find_first_not_of(" \t\r\n", at) >= line) {
      at = line;
    } else if (const size_t end = quoted_end(text, at, line, file); end > 0) {
      if (name.empty()) name = file;
      at = end;
    } else {
      return text.substr(at);
    }
  }
  return {};
}

}  // namespace infer::gui
