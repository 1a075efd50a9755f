// Drives a window by the names of what it draws: presses, types, and reads what is on the screen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gui/ui/record.h"
#include "gui/window.h"

namespace infer::gui::test {

class Driver {
 public:
  Driver(Window& window, WindowClient& client);
  ~Driver();

  /// Draws frames until the condition holds; false after so many seconds.
  bool wait(const std::function<bool()>& until, double seconds = 20);
  /// Draws so many frames.
  void frames(int count);

  /// The thing with this name that is on the screen. Null if there is none.
  const ui::Drawn* find(const std::string& name) const;
  bool shows(const std::string& name) const { return find(name) != nullptr; }
  /// Whether it is a part of the page, on the screen or scrolled out of sight.
  bool has(const std::string& name) const;
  /// Its text; empty if it is not there.
  std::string text(const std::string& name) const;
  /// The names on the screen that begin so.
  std::vector<std::string> names(const std::string& prefix) const;
  /// Whether some thing on the screen has this text in it.
  bool reads(const std::string& text) const;

  /// These wait until the thing is there, and fail the test if it does not come.
  void click(const std::string& name, int button = 0);
  /// A click after which no frame is drawn but those that the window draws by itself.
  void click_and_rest(const std::string& name);
  /// Lets the window draw what it wants to draw by itself.
  void rest();
  void hover(const std::string& name);
  /// Scrolls under the pointer, which moves to the middle of the thing.
  void scroll(const std::string& name, float lines);
  /// Scrolls down in the area of `visible`, which is on the screen, until `name` is as well.
  void scroll_to(const std::string& name, const std::string& visible);
  /// Drags from one place of a thing to another; places are shares of its width and height.
  void drag(const std::string& name, float from_x, float from_y, float to_x, float to_y);

  /// What has the keyboard gets this text.
  void type(const std::string& text);
  /// Clicks on an input, replaces what it has.
  void fill(const std::string& name, const std::string& text);
  void key(int glfw_key, bool control = false, bool shift = false);

  /// Makes the window so many pixels large, with `scale` pixels for each unit.
  void resize(int width, int height, float scale);
  /// Writes the last frame as PNG.
  void screenshot(const std::string& path);

 private:
  const ui::Drawn& must_find(const std::string& name);
  void inject(ImGuiIO& io);

  Window& window_;
  WindowClient& client_;
  float x_ = -1, y_ = -1, wheel_ = 0;
  bool down_[2] = {};
  int key_ = 0;
  bool control_ = false, shift_ = false;
};

}  // namespace infer::gui::test
