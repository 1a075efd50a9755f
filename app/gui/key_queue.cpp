#include "gui/key_queue.h"

#include <algorithm>
#include <vector>

namespace infer::gui {

void KeyQueue::give_frame(const std::function<void(const KeyEvent&)>& give) {
  using Kind = KeyEvent::Kind;
  std::vector<int> released;
  bool pressed = false;
  for (; !events_.empty(); events_.pop_front()) {
    const KeyEvent event = events_.front();
    if (event.kind != Kind::character) {
      if (pressed || std::ranges::count(released, event.key) > 0) return;
      if (event.kind == Kind::release) released.push_back(event.key);
    }
    pressed = pressed || event.kind != Kind::release;
    give(event);
  }
}

}  // namespace infer::gui
