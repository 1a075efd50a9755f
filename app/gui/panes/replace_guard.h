// Asks before a file that is there is replaced.
#pragma once

#include <string>

namespace infer::gui {

class ReplaceGuard {
 public:
  /// After the button that writes was pressed: whether the file may be written. One that is there
  /// may be with the second press.
  bool may_write(const std::string& path);
  /// Whether the button has to be pressed once more for this file.
  bool asks(const std::string& path) const { return !path.empty() && path == asked_; }
  /// Says so, if it has.
  void draw(const std::string& path) const;

 private:
  std::string asked_;
};

}  // namespace infer::gui
