// A file that is there in full or not at all.
#pragma once

#include <string>
#include <string_view>

namespace infer::cli {

/// Throws Failure unless a file of this name could be written: what takes long should not fail at
/// its end.
void require_writable(const std::string& path);

/// Writes a file beside it and puts that in its place. Only a regular file is ever replaced.
/// `user_only`: nobody but the user may read it. Throws Failure; nothing has changed then.
void replace_file(const std::string& path, std::string_view content, bool user_only = false);

}  // namespace infer::cli
