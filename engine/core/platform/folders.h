// Folders of the user.
#pragma once

#include <string>

namespace infer::os {

/// What programs keep to be faster and can make again: $XDG_CACHE_HOME or ~/.cache. Empty if the
/// user has no such folder.
std::string cache_folder();

}  // namespace infer::os
