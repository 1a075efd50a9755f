// Small files that are replaced as a whole.
#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

namespace infer::platform {

/// Replaces a file, or makes it. Only the user can read it. At any moment, also after a power cut,
/// the file is either the old one or the new one. A link stays, and its target is replaced. After a
/// failure the file is as it was.
std::error_code replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace infer::platform
