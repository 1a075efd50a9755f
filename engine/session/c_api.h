// What the parts of the C API share: failures, structures that grow, descriptions with C strings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

struct infer_image {
  infer::ModelImage image;
};

struct infer_vocabulary {
  std::unique_ptr<infer::Vocabulary> owned;
  const infer::Vocabulary* vocabulary = nullptr;
};

/// Devices and the C structures that point into them. Not to be moved once filled.
struct infer_device_list {
  std::vector<infer::DeviceDescription> devices;
  std::vector<infer_gpu> gpus;  ///< one for each device, told or not
  std::vector<infer_device> items;
};

/// The engine itself is shared with the sessions, so that it outlives them.
struct infer_engine {
  std::shared_ptr<infer::Engine> engine;
  infer_vocabulary vocabulary;
  infer_description description;
  std::vector<infer::AdapterDescription> adapters;
};

/// The files of the C API use this namespace.
namespace infer::c {

using infer::Result;
using infer::Status;
using infer::StatusCode;

/// Keeps the message of a failure for infer_last_error() on this thread.
infer_status record(const Status& status);

Status null_argument(const char* what);

/// Runs the body of a C function; nothing that it throws comes out.
template <typename Body>
infer_status checked(Body&& body) {
  return record(guarded(std::forward<Body>(body)));
}

/// invalid_argument for a null pointer with a count, and for more tokens than int32_t counts.
Result<std::span<const int32_t>> token_span(const int32_t* tokens, size_t count);

/// invalid_argument for flags that do not exist.
Result<infer::TokenizeOptions> tokenize_options(uint32_t flags);

/// invalid_argument for a null pointer among them, or one with a count.
Result<std::vector<infer::ModelImage>> images_of(const infer_image* const* images, size_t count);

/// "a;b" with ';': {"a", "b"}.
std::vector<std::string> parts_of(std::string_view text, char separator);

/// Fills `to` from a description.
void describe_in_c(ModelDescription description, infer_description& to);

/// What points into it is valid as long as it is.
infer_gpu gpu_in_c(const GpuTelemetry& gpu);

/// Fills `to` from descriptions, without what an engine uses.
void list_in_c(std::vector<DeviceDescription> devices, infer_device_list& to);

/// Copies to a caller's buffer what it has room for, and tells how much there is.
template <typename T>
Status write_buffer(std::span<const T> from, T* buffer, size_t capacity, size_t* count) {
  if (buffer == nullptr && capacity > 0) return null_argument("the buffer");
  *count = from.size();
  std::copy_n(from.data(), std::min(from.size(), capacity), buffer);
  return {};
}

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
