// Temporary files beside the files that they are to replace.
#pragma once

#include <cstdio>
#include <string>

namespace infer::platform {

/// Creates "TARGET.PROCESS-NUMBER.part" for writing; `path` is its name. Null: errno says why.
/// First removes such files of the same target that killed processes left behind. As long as the
/// file is open, nobody else removes it: rename or remove it before it is closed. It is the
/// unfinished file (interrupt.h) until then.
std::FILE* create_part(const std::string& target, std::string& path);
/// Writes all that is buffered, and returns when it survives a power cut. errno, or 0.
int sync(std::FILE* file);

}  // namespace infer::platform
