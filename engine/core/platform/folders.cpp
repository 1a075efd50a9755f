#include "engine/core/platform/folders.h"

#include <cstdlib>

namespace infer::os {

std::string cache_folder() {
  // XDG wants relative ones ignored.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return cache;
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache" : std::string();
}

}  // namespace infer::os
