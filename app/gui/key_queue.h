// Keys between the system and ImGui, which sees of a frame only which keys are down at its start: a
// key that is pressed and released between two frames would be lost.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace infer::gui {

/// A key that goes down or up, or a character.
struct KeyEvent {
  enum class Kind : uint8_t { press, release, character };
  Kind kind = Kind::press;
  int key = 0;  ///< as GLFW numbers them; of a character its code
  bool operator==(const KeyEvent&) const = default;
};

class KeyQueue {
 public:
  void add(KeyEvent event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }
  /// Gives the events of the next frame, in order: keys that are released, then one that is
  /// pressed, then what it types. A key that is held meanwhile, such as Ctrl, still is then. The
  /// others wait for later frames.
  void give_frame(const std::function<void(const KeyEvent&)>& give);

 private:
  std::deque<KeyEvent> events_;
};

}  // namespace infer::gui
