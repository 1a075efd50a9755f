#include "platform/folders.h"

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "platform/input_file.h"

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

namespace {

std::string text_of(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::floor<milliseconds>(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts = {};
  if (gmtime_r(&seconds, &parts) == nullptr) return {};
  char text[32] = "";
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.", &parts);
  const std::string rest = std::to_string(1000 + now.time_since_epoch().count() % 1000);
  return std::string(text, size) + rest.substr(1) + "Z";
}

}  // namespace

std::string utc_text(double later) {
  using Clock = std::chrono::system_clock;
  const std::chrono::duration<double> seconds(later);
  return text_of(Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds));
}

std::string changed_text(const std::filesystem::path& path) {
  std::error_code failed;
  auto changed = std::filesystem::last_write_time(path, failed);
  if (failed) changed = std::filesystem::last_write_time(kOwnFile, failed);
  if (failed) return utc_text();
  return text_of(std::chrono::file_clock::to_sys(changed));
}

std::string time_stamp() {
  char text[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  if (gmtime_r(&now, &parts) == nullptr) return {};
  return {text, std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &parts)};
}

}  // namespace infer::platform
