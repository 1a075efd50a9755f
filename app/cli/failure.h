// How a command ends: exit codes, and the one way a failure travels up to main.
#pragma once

#include <stdexcept>
#include <string>

#include "infer/status.hpp"

namespace infer::cli {

// Scripts rely on these.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadFile = 3;  ///< the model or an input file
inline constexpr int kExitDoesNotFit = 4;
inline constexpr int kExitDevice = 5;
inline constexpr int kExitInterrupted = 130;  ///< or 129, 143: see interrupt_code()

/// Whether it is the code of a program that a signal ended.
bool is_interrupt(int exit_code);
/// The exit code of a failure of the library.
int exit_code(StatusCode code);

/// Ends the command: caught in run_program alone, which prints the message and returns the code.
/// Never thrown in a callback of the library.
class Failure : public std::runtime_error {
 public:
  Failure(int exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// A usage error.
[[noreturn]] void usage(const std::string& message);

/// Throws unless ok.
void must(const Status& status);
/// The value, or throws.
template <typename T>
T must(Result<T> result) {
  if (!result) must(result.error());
  return *std::move(result);
}
/// The same of what only reads: an input that the system cannot read is a bad one.
template <typename T>
T must_read(Result<T> result) {
  if (!result && result.error().code() == StatusCode::io) {
    throw Failure(kExitBadFile, result.error().message());
  }
  return must(std::move(result));
}

}  // namespace infer::cli
