// Libraries that are opened at run time.
#pragma once

namespace infer::os {

/// Opens a library for as long as the process runs. Null: it is not there, or needs what is not.
void* open_library(const char* name);
/// The address of a function in it; null if it has none of this name.
void* find_function(void* library, const char* name);

}  // namespace infer::os
