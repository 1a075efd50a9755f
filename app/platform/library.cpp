#include "platform/library.h"

#include <dlfcn.h>

namespace infer::platform {

void* open_library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

void* find_function(void* library, const char* name) { return dlsym(library, name); }

}  // namespace infer::platform
