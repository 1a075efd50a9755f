// What is wrong with a request.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "infer/status.hpp"

namespace infer::server {

/// Thrown while a request is read; caught in Api::handle() alone.
class Problem : public std::runtime_error {
 public:
  /// `field`: the one that is wrong, "messages[0].role"; empty: none in particular. `lasts`: trying
  /// again later does not help, although the status says so. `code`: the name that OpenAI's API has
  /// for it; null: none.
  Problem(int status, const std::string& message, std::string field = "", bool lasts = false,
          const char* code = nullptr)
      : std::runtime_error(message),
        message_(message),
        status_(status),
        field_(std::move(field)),
        lasts_(lasts),
        code_(code) {}

  /// what() as far as its first byte of 0, which clients may have sent.
  const std::string& message() const { return message_; }
  int status() const { return status_; }
  const std::string& field() const { return field_; }
  bool lasts() const { return lasts_; }
  const char* code() const { return code_; }

 private:
  std::string message_;
  int status_;
  std::string field_;
  bool lasts_;
  const char* code_;
};

/// The status of HTTP for a failure of the library.
int http_status(StatusCode code);

/// The name of a kind of error in OpenAI's API.
const char* error_type(int status);

/// The same in Anthropic's API.
const char* anthropic_error_type(int status);

/// Throws unless ok.
void must(const Status& status);
template <typename T>
T must(Result<T> result) {
  if (!result) must(result.error());
  return *std::move(result);
}

}  // namespace infer::server
