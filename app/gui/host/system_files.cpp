#include "gui/host/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>
#include <utility>

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr std::streamsize kMostBytes = 256 << 10;
constexpr size_t kMostNumbered = 4096;

}  // namespace

std::optional<std::string> read_system_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  file.read(text.data(), kMostBytes);
  if (file.bad()) return std::nullopt;
  text.resize(static_cast<size_t>(file.gcount()));
  // Many of these files exist for devices that are asleep and fail when they are read.
  if (text.empty()) return std::nullopt;
  return text;
}

std::optional<int64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<int64_t> read_number(const fs::path& path) {
  const std::optional<std::string> text = read_system_text(path);
  return text ? number_in(*text) : std::nullopt;
}

std::optional<double> read_scaled(const fs::path& path, double unit) {
  const std::optional<int64_t> number = read_number(path);
  if (!number) return std::nullopt;
  return static_cast<double>(*number) * unit;
}

std::optional<int64_t> field_in(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
      return number_in(line.substr(name.size() + 1));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

std::vector<fs::path> numbered(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code failed;
  fs::directory_iterator it(folder, failed);
  for (const fs::directory_iterator end; !failed && it != end && found.size() < kMostNumbered;
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const char* const first = name.data() + prefix.size();
    const char* const last = name.data() + name.size();
    int64_t number = 0;
    const auto parsed = std::from_chars(first, last, number);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == last;
    if (whole && *first != '-') found.emplace_back(number, it->path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace infer::gui
