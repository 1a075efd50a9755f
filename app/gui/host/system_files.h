// The small files of /proc and /sys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace infer::gui {

/// The first 256 KiB of a file; nothing if it cannot be read.
std::optional<std::string> read_system_text(const std::filesystem::path& path);
/// The whole number that a text begins with.
std::optional<int64_t> number_in(std::string_view text);
/// The same of a file.
std::optional<int64_t> read_number(const std::filesystem::path& path);
/// read_number() times `unit`.
std::optional<double> read_scaled(const std::filesystem::path& path, double unit);
/// The number after "name:" at the beginning of a line.
std::optional<int64_t> field_in(std::string_view text, std::string_view name);
/// Paths in a folder whose names are `prefix` and a number, by that number: "card0", not
/// "card0-DP-1". At most 4,096. None if there is no folder.
std::vector<std::filesystem::path> numbered(const std::filesystem::path& folder,
                                            std::string_view prefix);

}  // namespace infer::gui
