#include "gui/key_queue.h"

#include <algorithm>
#include <vector>

namespace infer::gui {
namespace {

bool is_button(const KeyEvent& event) {
  return event.kind == KeyEvent::Kind::button_press || event.kind == KeyEvent::Kind::button_release;
}

}  // namespace

bool KeyQueue::has_button() const { return std::ranges::any_of(events_, is_button); }

void KeyQueue::give_frame(const std::function<void(const KeyEvent&)>& give) {
  using Kind = KeyEvent::Kind;
  std::vector<int> released;
  bool pressed = false;
  for (; !events_.empty(); events_.pop_front()) {
    const KeyEvent event = events_.front();
    if (is_button(event)) {
      if (pressed) return;
      events_.pop_front();
      return give(event);
    }
    if (event.kind != Kind::character) {
      if (pressed || std::ranges::count(released, event.key) > 0) return;
      if (event.kind == Kind::release) released.push_back(event.key);
    }
    pressed = pressed || event.kind != Kind::release;
    give(event);
  }
}

}  // namespace infer::gui
