// What the parts of the C API share: failures, structures that grow, descriptions with C strings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "engine/core/status.h"
#include "engine/session/engine_impl.h"
#include "infer/infer.h"
#include "infer/infer.hpp"

/// A description and the C structures that point into it. Not to be moved once filled.
struct infer_description {
  infer::ModelDescription description;
  infer_model model = {};
  std::vector<infer_tensor> tensors;
};

namespace infer::c {

/// Keeps the message of a failure for infer_last_error() on this thread.
infer_status record(const Status& status);

Status null_argument(const char* what);

/// Runs the body of a C function; nothing that it throws comes out.
template <typename Body>
infer_status checked(Body&& body) {
  return record(guarded(std::forward<Body>(body)));
}

/// Fills `to` from a description.
void describe_in_c(ModelDescription description, infer_description& to);

/// Writes as much of `from` as the caller's structure of `size` bytes has, and zeros beyond it.
template <typename T>
void write_struct(const T& from, T* to, size_t size) {
  if (to == nullptr) return;
  const size_t known = std::min(size, sizeof(T));
  std::memcpy(to, &from, known);
  std::memset(reinterpret_cast<std::byte*>(to) + known, 0, size - known);
}

/// Reads options of an older or newer caller over the defaults in `to`; null leaves those.
template <typename T>
Status read_options(const T* from, T& to) {
  if (from == nullptr) return {};
  if (from->struct_size < sizeof(size_t)) {
    return error(StatusCode::invalid_argument,
                 "options: struct_size is {}; call the init function first", from->struct_size);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(from);
  const size_t known = std::min(from->struct_size, sizeof(T));
  const std::byte* end = bytes + from->struct_size;
  if (std::any_of(bytes + known, end, [](std::byte b) { return b != std::byte{0}; })) {
    return error(StatusCode::unsupported,
                 "options: the caller sets an option that this version ({}) does not know",
                 version());
  }
  std::memcpy(&to, from, known);
  return {};
}

}  // namespace infer::c
