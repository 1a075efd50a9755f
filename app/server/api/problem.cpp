#include "server/api/problem.h"

namespace infer::server {

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::invalid_argument:
    case StatusCode::unsupported:
    case StatusCode::does_not_fit: return 400;
    case StatusCode::not_found: return 404;
    case StatusCode::busy: return 429;
    case StatusCode::out_of_memory:
    case StatusCode::cancelled:  // the server or its model ends
    case StatusCode::device: return 503;
    default: return 500;
  }
}

const char* error_type(int status) {
  switch (status) {
    case 501: return "invalid_request_error";
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

const char* anthropic_error_type(int status) {
  if (status == 413) return "request_too_large";
  if (status == 503) return "overloaded_error";
  return status < 500 || status == 501 ? error_type(status) : "api_error";
}

void must(const Status& status) {
  if (!status.ok()) throw Problem(http_status(status.code()), status.message());
}

}  // namespace infer::server
