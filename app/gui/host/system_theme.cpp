#include "gui/host/system_theme.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "platform/folders.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLines = 10'000;

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return small;
}

std::string trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(" \t\r"), text.size());
  text.remove_prefix(first);
  return std::string(text.substr(0, text.find_last_not_of(" \t\r") + 1));
}

/// The value of "key=value" in a file of settings; nothing if there is none.
std::optional<std::string> value_of(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  for (size_t i = 0; i < kMostLines && std::getline(file, line); ++i) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos || trimmed(line.substr(0, equals)) != key) continue;
    return trimmed(line.substr(equals + 1));
  }
  return std::nullopt;
}

bool is_dark_name(std::string_view theme) { return lower(theme).find("dark") != std::string::npos; }

}  // namespace

std::optional<bool> prefers_dark(const fs::path& config, std::string_view gtk_theme) {
  if (!gtk_theme.empty()) return is_dark_name(gtk_theme);
  if (const auto scheme = value_of(config / "kdeglobals", "ColorScheme")) {
    return is_dark_name(*scheme);
  }
  for (const char* version : {"gtk-4.0", "gtk-3.0"}) {
    const fs::path file = config / version / "settings.ini";
    const auto prefers = value_of(file, "gtk-application-prefer-dark-theme");
    if (prefers && (*prefers == "1" || lower(*prefers) == "true")) return true;
    if (const auto theme = value_of(file, "gtk-theme-name")) return is_dark_name(*theme);
    if (prefers) return false;
  }
  return std::nullopt;
}

bool system_prefers_dark() {
  fs::path config = platform::folder_of("XDG_CONFIG_HOME");
  if (config.empty()) config = platform::home_folder() / ".config";
  return prefers_dark(config, platform::variable("GTK_THEME")).value_or(true);
}

}  // namespace infer::gui
