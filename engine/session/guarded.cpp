#include "engine/session/guarded.h"

#include <string>

namespace infer {

Status caught(StatusCode code, const char* before, const char* what) noexcept {
  try {
    return {code, std::string(before) + what};
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace infer
