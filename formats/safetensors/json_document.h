// A JSON file of a vocabulary's size as a tree, and typed look-ups in it that explain what is
// wrong.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/core/status.h"

namespace infer::safetensors {

using Json = nlohmann::json;

/// The JSON object in a file. not_found, io, or bad_file naming the place: invalid JSON, something
/// other than an object, a key that appears twice in one, more than 256 MiB, 6 million values or 32
/// levels.
Result<Json> read_json_document(const std::string& path);
/// The same of an array.
Result<Json> read_json_array(const std::string& path);

/// The first failure of several look-ups.
struct JsonProblem {
  std::string file;
  Status status;

  bool ok() const { return status.ok(); }
};

/// The same of a text; `where` names it in messages.
Result<Json> parse_json(const std::string& where, const std::string& text);

/// A place in a document: its value and its path. The first failed look-up is kept in the
/// JsonProblem; failed look-ups return something empty. null counts as absent.
class JsonPlace {
 public:
  JsonPlace(const Json& value, JsonProblem& problem, std::string path = "")
      : value_(&value), problem_(&problem), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  JsonProblem* problem() const { return problem_; }
  const std::string& path() const { return path_; }
  bool present() const { return !value_->is_null(); }

  /// The value of a key; an absent place if there is none. Fails if this place has a value that is
  /// not an object.
  JsonPlace at(const std::string& key) const;
  /// An element of an array that has it.
  JsonPlace at(size_t index) const;
  /// Number of elements of the array; 0 if it is absent. Fails if the value is not an array.
  size_t size() const;

  // Absent values give the second argument, where there is none that is a failure.
  std::string text() const;
  std::string text(std::string_view absent) const;
  bool flag(bool absent) const;
  int64_t integer(int64_t min, int64_t max) const;
  double number() const;
  /// text() of the key "type".
  std::string type() const { return at("type").text(); }

  /// bad_file: what was expected in this place.
  void expected(std::string_view what) const;
  /// unsupported: this cannot be represented.
  void unsupported(std::string_view why = "") const;

 private:
  std::string found() const;

  const Json* value_;
  JsonProblem* problem_;
  std::string path_;
};

}  // namespace infer::safetensors
