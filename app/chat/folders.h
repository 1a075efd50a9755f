// Folders that environment variables name, as the XDG base directory specification says.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace infer::chat {

/// The folder that a variable names, such as HOME or XDG_DATA_HOME. Empty if there is none. The
/// specification says to ignore relative ones.
inline std::filesystem::path folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  const std::filesystem::path folder = value == nullptr ? "" : value;
  return folder.is_absolute() ? folder : std::filesystem::path();
}

}  // namespace infer::chat
