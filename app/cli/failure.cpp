#include "cli/failure.h"

#include "platform/interrupt.h"

namespace infer::cli {

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return kExitOk;
    case StatusCode::invalid_argument: return kExitUsage;
    case StatusCode::not_found:
    case StatusCode::bad_file:
    case StatusCode::unsupported: return kExitBadFile;
    case StatusCode::does_not_fit:
    case StatusCode::out_of_memory: return kExitDoesNotFit;
    case StatusCode::device: return kExitDevice;
    case StatusCode::cancelled: return platform::interrupt_code();
    case StatusCode::io:
    case StatusCode::internal:
    case StatusCode::busy: return kExitRuntime;
  }
  return kExitRuntime;
}

bool is_interrupt(int exit_code) { return exit_code > 128; }

void usage(const std::string& message) { throw Failure(kExitUsage, message); }

void must(const Status& status) {
  if (!status.ok()) throw Failure(exit_code(status.code()), status.message());
}

}  // namespace infer::cli
