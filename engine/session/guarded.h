// Exceptions end here: what is thrown inside becomes a Status.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "engine/core/status.h"

namespace infer {

/// Where memory is exhausted a message must not need any: this one is short enough to lie within
/// the string itself.
inline Status out_of_memory() { return {StatusCode::out_of_memory, "out of memory"}; }

/// The failure that an exception stands for; out_of_memory() if its message cannot be held.
Status caught(StatusCode code, const char* before, const char* what) noexcept;

/// Runs `body`, turning std::bad_alloc into StatusCode::out_of_memory and whatever else is thrown
/// (the system refuses a thread, for instance) into StatusCode::internal.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  Status status;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    status = out_of_memory();
  } catch (const std::exception& e) {
    status = caught(StatusCode::internal, "", e.what());
  } catch (...) {
    status = caught(StatusCode::internal, "", "an exception of an unknown type");
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
  } catch (const std::bad_alloc&) {
    failure = out_of_memory();
  } catch (const std::exception& e) {
    failure = caught(StatusCode::invalid_argument, "the callback threw: ", e.what());
  } catch (...) {
    failure = caught(StatusCode::invalid_argument, "the callback threw", "");
  }
  return false;
}

}  // namespace infer
