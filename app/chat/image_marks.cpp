#include "chat/image_marks.h"

#include <algorithm>
#include <array>
#include <optional>

#include "platform/history_file.h"

namespace infer::chat {
namespace {

/// The mark that begins at `at`, with "![".
std::optional<ImageMark> mark_at(const std::string& text, size_t at) {
  constexpr std::string_view kFile = "file://";
  const size_t address = text.find("](", at);
  if (address == std::string::npos || text.find('\n', at) < address) return std::nullopt;
  const bool angled = text.compare(address + 2, 1, "<") == 0;
  const size_t begin = address + 2 + (angled ? 1 : 0);
  const size_t end = text.find_first_of(angled ? ">\n" : ") \n", begin);
  if (end == std::string::npos) return std::nullopt;
  const size_t close = end + (angled ? 1 : 0);
  if (text.compare(close, 1, ")") != 0) return std::nullopt;
  std::string path = text.substr(begin, end - begin);
  if (path.starts_with(kFile)) path.erase(0, kFile.size());
  if (path.starts_with("~/")) path = platform::expanded(path);
  if (!path.starts_with('/') || !names_image(path)) return std::nullopt;
  return ImageMark{at, close + 1, std::move(path)};
}

}  // namespace

bool names_image(std::string_view path) {
  constexpr std::array<std::string_view, 4> kEndings = {"png", "jpg", "jpeg", "webp"};
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(path.substr(dot + 1));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::string image_mark(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name) {
    if (c == '[' || c == ']') c = ' ';
  }
  return "![" + name + "](<" + path + ">)";
}

std::vector<ImageMark> image_marks(const std::string& text) {
  std::vector<ImageMark> marks;
  for (size_t at = text.find("!["); at != std::string::npos;) {
    std::optional<ImageMark> mark = mark_at(text, at);
    at = text.find("![", mark ? mark->end : at + 2);
    if (mark) marks.push_back(*std::move(mark));
  }
  return marks;
}

}  // namespace infer::chat
