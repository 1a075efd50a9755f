// Keys and the buttons of the mouse between the system and ImGui, which sees of a frame only what
// is down at its start: a key that is pressed and released between two frames would be lost, and a
// click would overtake what was typed before it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace infer::gui {

/// A key or a button of the mouse that goes down or up, or a character.
struct KeyEvent {
  enum class Kind : uint8_t { press, release, character, button_press, button_release };
  Kind kind = Kind::press;
  int key = 0;         ///< key or button as GLFW numbers them; of a character its code
  float x = 0, y = 0;  ///< where the pointer was, of a button
  bool operator==(const KeyEvent&) const = default;
};

class KeyQueue {
 public:
  void add(KeyEvent event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }
  /// Whether a button waits.
  bool has_button() const;
  /// Gives the events of the next frame, in order: keys that are released, then a button, or one
  /// key that is pressed and what it types. A key that is held meanwhile, such as Ctrl, still is
  /// then. The others wait for later frames.
  void give_frame(const std::function<void(const KeyEvent&)>& give);

 private:
  std::deque<KeyEvent> events_;
};

}  // namespace infer::gui
