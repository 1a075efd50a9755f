#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>

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
  std::string found;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!name.starts_with("mmproj") || !name.ends_with(".gguf")) continue;
    if (!found.empty()) return {};
    found = (folder / it->path().filename()).string();
  }
  return found;
}

}  // namespace infer
