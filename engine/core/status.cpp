#include "engine/core/status.h"

namespace infer {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return "ok";
    case StatusCode::invalid_argument: return "invalid_argument";
    case StatusCode::not_found: return "not_found";
    case StatusCode::bad_file: return "bad_file";
    case StatusCode::unsupported: return "unsupported";
    case StatusCode::does_not_fit: return "does_not_fit";
    case StatusCode::out_of_memory: return "out_of_memory";
    case StatusCode::device: return "device";
    case StatusCode::io: return "io";
    case StatusCode::cancelled: return "cancelled";
    case StatusCode::internal: return "internal";
    case StatusCode::busy: return "busy";
  }
  return "unknown";
}

Status formatted_error(StatusCode code, fmt::string_view text, fmt::format_args args) {
  return {code, fmt::vformat(text, args)};
}

tl::unexpected<Status> formatted_failure(StatusCode code, fmt::string_view text,
                                         fmt::format_args args) {
  return tl::unexpected<Status>(formatted_error(code, text, args));
}

}  // namespace infer
