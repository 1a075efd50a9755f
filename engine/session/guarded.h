// Exceptions end here: what is thrown inside becomes a Status.
#pragma once

#include <type_traits>
#include <utility>

#include "engine/core/status.h"

namespace infer {

/// Where memory is exhausted a message must not need any: this one is short enough to lie within
/// the string itself.
inline Status out_of_memory() { return {StatusCode::out_of_memory, "out of memory"}; }

/// A failure with this message; out_of_memory() if there is no memory for it.
Status failure_of(StatusCode code, const char* message) noexcept;

/// In a catch block: the failure that the exception stands for. std::bad_alloc is out_of_memory();
/// anything else has the code given, and what() after `before` as the message.
Status caught(StatusCode code, const char* before) noexcept;

/// Runs `body`, turning std::bad_alloc into StatusCode::out_of_memory and whatever else is thrown
/// (the system refuses a thread, for instance) into StatusCode::internal.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  Status status;
  try {
    return body();
  } catch (...) {
    status = caught(StatusCode::internal, "");
  }
  if constexpr (std::is_same_v<decltype(body()), Status>) {
    return status;
  } else {
    return tl::unexpected<Status>(std::move(status));
  }
}

/// Runs a caller's callback. What it throws becomes `failure`, so that it ends that caller's
/// request and no other; the result is then false.
template <typename Callback>
bool call_back(Status& failure, Callback&& callback) {
  try {
    return callback();
  } catch (...) {
    failure = caught(StatusCode::invalid_argument, "the callback threw: ");
  }
  return false;
}

/// Tells a caller's callback, if there is one, how far the work is. cancelled if it returns false,
/// and what call_back() says if it throws.
template <typename Callback, typename... Arguments>
Status tell(const Callback& callback, const Arguments&... arguments) {
  if (!callback) return {};
  Status failure;
  if (call_back(failure, [&] { return callback(arguments...); })) return {};
  return failure.ok() ? Status(StatusCode::cancelled, "cancelled") : failure;
}

}  // namespace infer
