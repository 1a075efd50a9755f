// The small files of /sys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace infer {

/// The start of a small file, at most 128 bytes, without its line end. `code`: errno if it cannot
/// be read, as files of devices that are asleep.
std::optional<std::string> small_file(const std::filesystem::path& path, int* code = nullptr);
/// The number that it begins with, 0 or more; nothing if there is none.
std::optional<int64_t> small_number(const std::filesystem::path& path, int* code = nullptr);
/// The same times `unit`.
std::optional<double> small_scaled(const std::filesystem::path& path, double unit);
/// The entries of a folder, sorted; none if it is absent.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace infer
