#include "engine/session/guarded.h"

#include <exception>
#include <new>
#include <string>

namespace infer {
namespace {

Status made(StatusCode code, const char* before, const char* message) noexcept {
  try {
    return {code, std::string(before) + message};
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace

Status failure_of(StatusCode code, const char* message) noexcept { return made(code, "", message); }

Status caught(StatusCode code, const char* before) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& e) {
    return made(code, before, e.what());
  } catch (...) {
    return made(code, before, "an exception of an unknown type");
  }
}

}  // namespace infer
