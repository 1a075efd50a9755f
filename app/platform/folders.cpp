#include "platform/folders.h"

#include <cstdlib>
#include <ctime>

namespace infer::platform {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::filesystem::path folder_of(const char* name) {
  const std::filesystem::path folder = variable(name);
  return folder.is_absolute() ? folder : std::filesystem::path();
}

std::filesystem::path home_folder() { return variable("HOME"); }

std::filesystem::path cache_folder() {
  if (std::filesystem::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache;
  const std::filesystem::path home = home_folder();
  return home.empty() ? home : home / ".cache";
}

std::string time_stamp() {
  char text[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  if (gmtime_r(&now, &parts) == nullptr) return {};
  return {text, std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &parts)};
}

}  // namespace infer::platform
