// Ends a text at the first of some strings, wherever tokens divide them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace infer {

/// Holds back text that may be the beginning of a stop string, until that is decided. Not
/// thread-safe.
class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> strings);

  /// Takes more text. Returns the text that is certainly not part of a stop string. Once one was
  /// found, returns nothing more.
  std::string push(std::string_view text);
  /// At the end: returns the text that was held back, up to a stop string in it.
  std::string finish();
  /// True if a stop string was found. The text before it has been returned, the string has not.
  bool found() const { return found_ != nullptr; }
  /// The one that was found; null before.
  const std::string* found_string() const { return found_; }

 private:
  size_t search();
  std::string take(size_t length);

  std::vector<std::string> strings_;
  std::string pending_;
  const std::string* found_ = nullptr;
};

}  // namespace infer
