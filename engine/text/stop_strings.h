// Ends a text at the first of some strings, wherever tokens divide them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace infer {

/// One thread. Text that may be the beginning of a string is held back until that is certain.
class StopStrings {
 public:
  /// Empty strings count for nothing.
  explicit StopStrings(std::vector<std::string> strings);

  /// Takes more text; returns what surely comes before any of the strings. Nothing more comes out
  /// once one was found.
  std::string push(std::string_view text);
  /// The end: what was held back, up to a string in it.
  std::string finish();
  /// Whether one of the strings was found. The text before it has come out, it has not.
  bool found() const { return found_ != nullptr; }

 private:
  size_t search();
  std::string take(size_t length);

  std::vector<std::string> strings_;
  std::string pending_;
  const std::string* found_ = nullptr;
};

}  // namespace infer
