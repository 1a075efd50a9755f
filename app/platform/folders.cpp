#include "platform/folders.h"

#include <cstdlib>

namespace infer::platform {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::filesystem::path home_folder() { return variable("HOME"); }

std::filesystem::path cache_folder() {
  if (std::filesystem::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache;
  const std::filesystem::path home = home_folder();
  return home.empty() ? home : home / ".cache";
}

}  // namespace infer::platform
