#include "engine/core/platform/library.h"

#include <dlfcn.h>

namespace infer::os {

void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void* find_function(void* library, const char* name) { return dlsym(library, name); }

}  // namespace infer::os
