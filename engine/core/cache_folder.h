// The program's folder for what may be lost: XDG_CACHE_HOME/infer, otherwise ~/.cache/infer.
#pragma once

#include <string>

#include "engine/core/status.h"

namespace infer {

/// The folder, which need not exist yet. Empty if the environment names none.
std::string cache_folder();

/// Makes the folder of a file, so that no other user may write there. io.
Status make_private_folder_of(const std::string& file);

}  // namespace infer
