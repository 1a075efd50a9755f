// The ends of the host's threads: nothing may be thrown beyond them.
#pragma once

#include <exception>
#include <new>

#include "infer/status.hpp"

namespace infer::gui {

/// Runs work that returns a Status; what it throws becomes one.
template <typename Work>
Status guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {StatusCode::out_of_memory, "not enough memory; close other programs and try again"};
  } catch (const std::exception& thrown) {
    return {StatusCode::internal, thrown.what()};
  }
}

}  // namespace infer::gui
