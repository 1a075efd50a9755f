#include "tests/gui/driver.h"

#include <GLFW/glfw3.h>
#include <doctest.h>
#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <chrono>

#include "gui/keys.h"
#include "gui/text/utf8.h"

namespace infer::gui::test {

Driver::Driver(Window& window, WindowClient& client) : window_(window), client_(client) {
  ui::set_recording(true);
  follow_layout([](int) { return nullptr; });  // keys are those of the US, wherever tests run
  ImGui::GetIO().KeyRepeatDelay = 1e6f;        // a slow frame is no key that is held
  ImGui::ClearActiveID();  // a field of the test before, and what was typed into it
  window_.on_input = [this](ImGuiIO& io) { inject(io); };
  frames(3);
}

Driver::~Driver() {
  window_.on_input = {};
  ui::set_recording(false);
}

void Driver::inject(ImGuiIO& io) {
  io.MousePos = {x_, y_};
  io.MouseDown[0] = down_[0];
  io.MouseDown[1] = down_[1];
  io.MouseWheel = std::exchange(wheel_, 0.0f);
  std::fill(std::begin(io.KeysDown), std::end(io.KeysDown), false);
  if (key_ != 0) io.KeysDown[key_] = true;
  io.KeyCtrl = control_;
  io.KeyShift = shift_;
  io.KeyAlt = io.KeySuper = false;
}

void Driver::frames(int count) {
  const int64_t until = window_.frames() + count;
  while (window_.frames() < until) {
    window_.wake();
    REQUIRE(window_.turn(client_, 0.02));
  }
}

bool Driver::wait(const std::function<bool()>& until, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!until()) {
    if (Clock::now() > end) return false;
    frames(1);
  }
  return true;
}

const ui::Drawn* Driver::find(const std::string& name) const {
  for (const ui::Drawn& drawn : ui::record()) {
    if (drawn.visible && drawn.name == name) return &drawn;
  }
  return nullptr;
}

bool Driver::has(const std::string& name) const {
  return std::ranges::find(ui::record(), name, &ui::Drawn::name) != ui::record().end();
}

std::string Driver::text(const std::string& name) const {
  const ui::Drawn* drawn = find(name);
  return drawn == nullptr ? std::string() : drawn->text;
}

std::vector<std::string> Driver::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const ui::Drawn& drawn : ui::record()) {
    if (drawn.visible && drawn.name.starts_with(prefix)) found.push_back(drawn.name);
  }
  return found;
}

bool Driver::reads(const std::string& text) const {
  return std::ranges::any_of(ui::record(), [&](const ui::Drawn& drawn) {
    return drawn.visible && drawn.text.find(text) != std::string::npos;
  });
}

const ui::Drawn& Driver::must_find(const std::string& name) {
  if (!wait([&] { return shows(name); })) {
    std::string there;
    for (const ui::Drawn& drawn : ui::record()) there += "\n  " + drawn.name;
    FAIL("nothing on the screen is called " << name << "; there are:" << there);
  }
  return *find(name);
}

void Driver::hover(const std::string& name) {
  // What comes in beside it may move it away from the pointer.
  const auto is_under_pointer = [&] {
    const ui::Drawn* drawn = find(name);
    return drawn != nullptr && x_ >= drawn->left && x_ < drawn->right && y_ >= drawn->top &&
           y_ < drawn->bottom;
  };
  for (int i = 0; i < 20; ++i) {
    const ui::Drawn& drawn = must_find(name);
    x_ = (drawn.left + drawn.right) / 2;
    y_ = (drawn.top + drawn.bottom) / 2;
    frames(2);
    if (is_under_pointer()) return;
  }
}

void Driver::click(const std::string& name, int button) {
  hover(name);
  REQUIRE_MESSAGE(find(name) != nullptr, name);
  CHECK_MESSAGE(find(name)->enabled, name << " is disabled");
  down_[button] = true;
  frames(1);
  down_[button] = false;
  frames(3);
}

void Driver::rest() {
  for (int64_t before = -1; before != window_.frames();) {
    before = window_.frames();
    for (int i = 0; i < 10; ++i) REQUIRE(window_.turn(client_, 0.02));
  }
}

void Driver::click_and_rest(const std::string& name) {
  hover(name);
  down_[0] = true;
  frames(1);
  rest();  // frames that are due from before are drawn
  down_[0] = false;
  window_.redraw_within(0);  // as after an event
  rest();
}

void Driver::scroll(const std::string& name, float lines) {
  hover(name);
  wheel_ = lines;
  frames(3);
}

void Driver::scroll_to(const std::string& name, const std::string& visible) {
  hover(visible);
  for (int i = 0; i < 100 && !shows(name); ++i) {
    wheel_ = -1;
    frames(3);
  }
  REQUIRE_MESSAGE(shows(name), name);
}

void Driver::drag(const std::string& name, float from_x, float from_y, float to_x, float to_y) {
  const ui::Drawn drawn = must_find(name);
  const auto move = [&](float x, float y) {
    x_ = drawn.left + x * (drawn.right - drawn.left);
    y_ = drawn.top + y * (drawn.bottom - drawn.top);
    frames(2);
  };
  move(from_x, from_y);
  down_[0] = true;
  frames(2);
  move((from_x + to_x) / 2, (from_y + to_y) / 2);
  move(to_x, to_y);
  down_[0] = false;
  frames(2);
}

void Driver::type(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    window_.take_key({KeyEvent::Kind::character, static_cast<int>(c.code)});
    at += c.length;
  }
  frames(2);
}

void Driver::key(int glfw_key, bool control, bool shift) {
  key_ = glfw_key;
  control_ = control;
  shift_ = shift;
  frames(2);
  key_ = 0;
  control_ = shift_ = false;
  frames(2);
}

void Driver::fill(const std::string& name, const std::string& text) {
  click(name);
  key(GLFW_KEY_A, true);
  key(GLFW_KEY_DELETE);
  type(text);
}

void Driver::resize(int width, int height, float scale) {
  window_.set_size(width, height, scale);
  const auto done = [&] {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    return static_cast<int>(size.x) == width && static_cast<int>(size.y) == height;
  };
  REQUIRE(wait(done));
  frames(5);
}

void Driver::screenshot(const std::string& path) {
  int width = 0;
  int height = 0;
  const std::vector<unsigned char> pixels = window_.pixels(width, height);
  REQUIRE(stbi_write_png(path.c_str(), width, height, 3, pixels.data(), width * 3) != 0);
}

}  // namespace infer::gui::test
