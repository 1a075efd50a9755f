// Takes a long JSON text apart without holding all of it: the values of an array or an object, one
// after another, as text. What is inside a value is for a parser to check.
#pragma once

#include <istream>
#include <string>

#include "infer/status.hpp"

namespace infer::conversations {

/// After a failure every further call fails with the same error: bad_file, with the byte at which
/// something else was expected, or io.
class JsonScanner {
 public:
  /// `name`: of the file, for errors. The stream outlives the scanner.
  JsonScanner(std::istream& in, std::string name);

  /// The next character that is not white space, which stays; 0 at the end of the text.
  char peek();
  /// Takes this character, after white space.
  bool take(char expected);
  /// Between the values of an array or object: whether there is another one. Takes the comma, or
  /// the closing character `end`. `is_first`: no comma is due; becomes false.
  bool another(char end, bool& is_first);
  /// The text of the next value, at most `most` bytes.
  std::string value(size_t most);
  /// The name of a member of an object, and the colon behind it.
  std::string member();
  /// Checks that nothing follows.
  void end();

  const Status& status() const { return status_; }
  /// Bytes taken so far.
  int64_t position() const { return position_; }
  void fail(const std::string& expected);

 private:
  int next();
  void skip_space();
  bool take_nested(std::string& text, size_t most);

  std::istream& in_;
  std::string name_;
  int64_t position_ = 0;  // in bytes
  Status status_;
};

}  // namespace infer::conversations
