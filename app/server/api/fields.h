// The fields of a JSON object from outside, each looked at by its type.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/problem.h"
#include "server/json.h"

namespace infer::server {

/// The body of a request as an object. Throws Problem.
Json read_object(const std::string& body);

class Fields;
/// Throws Problem if a field's text may not be parsed as JSON.
void check_json(const Fields& fields, const char* name, std::string_view text);

/// Absent and null are the same. Everything throws a Problem that names the field.
class Fields {
 public:
  /// `path`: of the object within the request, "messages[0]"; empty: the request itself.
  explicit Fields(const Json& object, std::string path = "");

  /// Null if absent.
  const Json* find(const char* name);
  bool has(const char* name) { return find(name) != nullptr; }
  std::optional<double> number(const char* name, double low, double high);
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high);
  std::optional<bool> boolean(const char* name);
  std::optional<std::string> text(const char* name);
  /// A text, or several in an array.
  std::vector<std::string> texts(const char* name, size_t most);
  const Json* object(const char* name);
  /// A JSON schema: an object or a boolean.
  const Json* schema(const char* name);
  const Json* array(const char* name, size_t most);
  /// A field that has no effect here.
  void ignore(const char* name) { known_.insert(name); }
  /// Throws if the field is present.
  void refuse(const char* name, const char* why);
  /// How many fields nobody asked for.
  int64_t unknown() const;

  std::string path_of(const std::string& name) const;
  [[noreturn]] void wrong(const std::string& name, const std::string& expected) const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace infer::server
