// Building and passing on failures. The types themselves are public: infer/status.hpp.
#pragma once

#include <fmt/core.h>

#include "infer/status.hpp"

namespace infer {

/// What error() and fail() share, compiled once.
Status formatted_error(StatusCode code, fmt::string_view text, fmt::format_args args);
tl::unexpected<Status> formatted_failure(StatusCode code, fmt::string_view text,
                                         fmt::format_args args);

/// A failure with a formatted message, to be returned from a Result or Status function.
template <typename... Args>
tl::unexpected<Status> fail(StatusCode code, fmt::format_string<Args...> text, Args&&... args) {
  return formatted_failure(code, text, fmt::make_format_args(args...));
}

/// The same as a bare Status.
template <typename... Args>
Status error(StatusCode code, fmt::format_string<Args...> text, Args&&... args) {
  return formatted_error(code, text, fmt::make_format_args(args...));
}

}  // namespace infer

#define INFER_CONCAT_(a, b) a##b
#define INFER_CONCAT(a, b) INFER_CONCAT_(a, b)

/// Returns the failure of a Status expression from a function that returns Status.
#define INFER_CHECK(expr)                                                                  \
  do {                                                                                     \
    if (::infer::Status infer_status_ = (expr); !infer_status_.ok()) return infer_status_; \
  } while (0)

/// Returns the failure of a Status expression from a function that returns Result.
#define INFER_CHECK_R(expr)                                             \
  do {                                                                  \
    if (::infer::Status infer_status_ = (expr); !infer_status_.ok())    \
      return tl::unexpected<::infer::Status>(std::move(infer_status_)); \
  } while (0)

/// Declares `decl` with the value of a Result, or returns its failure from a Result function.
#define INFER_TRY(decl, expr)                                      \
  auto INFER_CONCAT(infer_result_, __LINE__) = (expr);             \
  if (!INFER_CONCAT(infer_result_, __LINE__))                      \
    return tl::unexpected<::infer::Status>(                        \
        std::move(INFER_CONCAT(infer_result_, __LINE__)).error()); \
  decl = *std::move(INFER_CONCAT(infer_result_, __LINE__))

/// The same from a function that returns Status.
#define INFER_TRY_S(decl, expr)                                      \
  auto INFER_CONCAT(infer_result_, __LINE__) = (expr);               \
  if (!INFER_CONCAT(infer_result_, __LINE__))                        \
    return std::move(INFER_CONCAT(infer_result_, __LINE__)).error(); \
  decl = *std::move(INFER_CONCAT(infer_result_, __LINE__))
