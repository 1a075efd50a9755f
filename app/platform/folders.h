// Variables of the environment, and folders of the user.
#pragma once

#include <filesystem>
#include <string>

namespace infer::platform {

/// The value of a variable of the environment; empty if it is not set.
std::string variable(const char* name);

/// $HOME. Empty if it is not set.
std::filesystem::path home_folder();
/// $XDG_CACHE_HOME, else ~/.cache. Empty if neither is known.
std::filesystem::path cache_folder();

}  // namespace infer::platform
