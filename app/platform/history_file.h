// Where the lines that a person typed are kept from run to run.
#pragma once

#include <string>

namespace infer::platform {

/// "infer/history" in $XDG_STATE_HOME, else in ~/.local/state. Makes the folder and the file, which
/// only the user can read, and moves a file there that an earlier version left elsewhere.
/// Empty where that cannot be done: then nothing is kept.
std::string history_file();

/// A path as a shell reads it: "~" and what begins with "~/" lead to $HOME.
std::string expanded(const std::string& path);
/// The same as a path from the root on; "" stays, and so does what is no path of a file system
/// ("memory:…").
std::string full_path(const std::string& path);

}  // namespace infer::platform
