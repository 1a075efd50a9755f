// Whether the desktop is set to dark colours.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace infer::gui {

/// What the variable GTK_THEME and the files of GTK and KDE in the user's folder of settings say.
/// Nothing if none of them says anything.
std::optional<bool> prefers_dark(const std::filesystem::path& config, std::string_view gtk_theme);
/// Of this user. Dark if nothing is said. Reads small files.
bool system_prefers_dark();

}  // namespace infer::gui
