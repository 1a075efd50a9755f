#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "engine/core/platform/files.h"
#include "infer/infer.hpp"

namespace infer {
namespace fs = std::filesystem;

std::string find_vision(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
      if (fs::is_regular_file(fs::path(path) / name, error)) return path;
    }
    return {};
  }
  if (!fs::is_regular_file(path, error)) return {};
  const fs::path folder = fs::path(path).parent_path();
  const os::Answer<std::vector<std::string>> names =
      os::names_in(folder.empty() ? "." : folder.string());
  if (!names) return {};
  std::string found;
  for (const std::string& name : *names) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!lower.starts_with("mmproj") || !lower.ends_with(".gguf")) continue;
    if (!found.empty()) return {};
    found = (folder / name).string();
  }
  return found;
}

}  // namespace infer
