// Libraries that are opened at run time.
#pragma once

#include <initializer_list>

namespace infer::platform {

/// Opens the first of these libraries that is there, for as long as the process runs. Null: none
/// is.
void* open_library(std::initializer_list<const char*> names);
/// The address of a function in it; null if it has none of this name.
void* find_function(void* library, const char* name);

}  // namespace infer::platform
