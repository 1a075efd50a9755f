// Typed access to the members of parsed JSON. For .cpp files, which include nlohmann/json.hpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "conversations/types.h"
#include "infer/status.hpp"

namespace infer::conversations {

/// Sorts the members of objects: looking for one among n takes log n steps.
using Json = nlohmann::json;

/// Keeps the first error: bad_file, with the file, the member and what was expected. Then values
/// are those of members that are absent: "", 0, false, null.
///
/// `at` is the place of the object in the file, such as "conversations[3]". Members that are absent
/// or null are no error.
class JsonFields {
 public:
  explicit JsonFields(std::string file) : file_(std::move(file)) {}

  std::string text(const Json& object, const char* name, const std::string& at);
  int64_t integer(const Json& object, const char* name, const std::string& at);
  double number(const Json& object, const char* name, const std::string& at);
  bool boolean(const Json& object, const char* name, const std::string& at);
  /// Seconds or milliseconds since 1970, as a number; 0 if it is absent.
  Time time(const Json& object, const char* name, const std::string& at, double per_second);
  /// An empty object or array if it is absent.
  const Json& object(const Json& object, const char* name, const std::string& at);
  const Json& array(const Json& object, const char* name, const std::string& at);

  /// Parses the text of one value, an object: limited in depth.
  Json parse_object(const std::string& text, const std::string& at);
  /// Whether the value is an object. If not, that is an error.
  bool require_object(const Json& value, const std::string& at);

  void fail(const std::string& at, const std::string& expected);
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  const Json* member(const Json& object, const char* name);
  void fail(const std::string& at, const char* name, const char* expected, const Json& found);

  std::string file_;
  Status status_;
};

}  // namespace infer::conversations
