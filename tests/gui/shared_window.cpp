#include "tests/gui/fixture.h"

namespace infer::gui::test {

Window* shared_window() {
  static const Result<std::unique_ptr<Window>> window = Window::open({.scale = 1});
  if (window) return window->get();
  infer::test::skipped("window: " + window.error().message());
  return nullptr;
}

}  // namespace infer::gui::test
