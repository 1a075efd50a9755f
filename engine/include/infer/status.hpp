// Every failure of the library: a typed code and a message a person can act on.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "infer/export.h"

namespace infer {

/// What kind of failure it is. The values are part of the C ABI (infer.h).
enum class StatusCode : int32_t {
  ok = 0,
  invalid_argument = 1,  ///< the caller's argument is out of range or makes no sense
  not_found = 2,         ///< a file, device or name does not exist
  bad_file = 3,          ///< a file was read and is not what it should be
  unsupported = 4,       ///< valid, but this build or device cannot do it
  does_not_fit = 5,      ///< the planner says that the memory is not there
  out_of_memory = 6,     ///< an allocation failed although it was planned
  device = 7,            ///< a device failed or was lost
  io = 8,                ///< the system failed to read or write
  cancelled = 9,         ///< the caller cancelled
  internal = 10,         ///< a defect in the library
  busy = 11,             ///< more calls than the engine takes; try again later
};

/// Name of a code, e.g. "bad_file". A constant of the library.
INFER_API const char* status_code_name(StatusCode code);

/// A code and a message. Default constructed: ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

/// A value or the Status that says why there is none (never an ok one).
template <typename T>
using Result = tl::expected<T, Status>;

}  // namespace infer
