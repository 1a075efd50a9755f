#include "engine/telemetry/small_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>

#include "engine/core/platform/files.h"

namespace infer {

namespace fs = std::filesystem;

std::optional<std::string> small_file(const fs::path& path, int* code) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  char text[128];
  file.read(text, sizeof(text));
  const bool failed = !file.is_open() || file.bad() || (file.gcount() == 0 && errno != 0);
  if (failed && code != nullptr) *code = errno;
  if (failed) return std::nullopt;
  const char* end = std::find(text, text + file.gcount(), '\n');
  return std::string(static_cast<const char*>(text), end);
}

std::optional<int64_t> small_number(const fs::path& path, int* code) {
  const std::optional<std::string> text = small_file(path, code);
  int64_t number = -1;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number < 0 ? std::nullopt : std::optional(number);
}

std::optional<double> small_scaled(const fs::path& path, double unit) {
  const std::optional<int64_t> number = small_number(path);
  if (!number) return std::nullopt;
  return static_cast<double>(*number) * unit;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  const os::Answer<std::vector<std::string>> names = os::names_in(folder);
  if (!names) return entries;
  for (const std::string& name : *names) entries.push_back(folder / name);
  std::ranges::sort(entries);
  return entries;
}

}  // namespace infer
