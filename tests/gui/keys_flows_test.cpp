// What keys do: in fields, while something is open, on keyboards of other countries, and where they
// are faster than frames.
#include "gui/keys.h"

#include <GLFW/glfw3.h>
#include <imgui.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gui/key_queue.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;

const char* us_name(int key) {
  static char name[2];
  const bool letter = key >= GLFW_KEY_A && key <= GLFW_KEY_Z;
  name[0] = static_cast<char>(letter ? key - GLFW_KEY_A + 'a' : key);
  return name;
}

/// The keyboard of France while it lives: A and Q, Z and W are exchanged, M is right of L.
struct French {
  French() {
    follow_layout([](int key) -> const char* {
      switch (key) {
        case GLFW_KEY_Q: return "a";
        case GLFW_KEY_A: return "q";
        case GLFW_KEY_W: return "z";
        case GLFW_KEY_Z: return "w";
        case GLFW_KEY_SEMICOLON: return "m";
        case GLFW_KEY_M: return ",";
        case GLFW_KEY_2: return "é";
        default: return us_name(key);
      }
    });
  }
  ~French() { follow_layout(us_name); }
};

TEST_CASE("keys: letters are those of the keyboard's layout") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "abc");
  const French keyboard;
  f.driver->key(GLFW_KEY_Q, true);  // Ctrl+A
  f.driver->type("new");
  CHECK(f.driver->text(kMessage) == "new");
  f.driver->key(GLFW_KEY_W, true);  // Ctrl+Z
  CHECK(f.driver->text(kMessage) == "abc");
  CHECK(f.app->toasts().all().empty());
  f.driver->key(GLFW_KEY_A, true);  // Ctrl+Q, which tells about the draft
  REQUIRE(f.app->toasts().all().size() == 1);
  CHECK(f.app->toasts().all().front().text.find("Ctrl+Q again") != std::string::npos);
  // Digits have no letter without Shift.
  f.driver->key(GLFW_KEY_2, true);
  CHECK(f.driver->shows("models/left/filter"));
}

TEST_CASE("keys: Ctrl+Q tells about a tool that is running") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click("top/page/Tools");
  f.driver->click("tools/tool/Selftest");
  f.driver->click("tools/form/start");
  REQUIRE(f.app->jobs().is_running());
  f.driver->key(GLFW_KEY_Q, true);
  REQUIRE(f.app->toasts().all().size() == 1);
  CHECK(f.app->toasts().all().front().text.find("is still running") != std::string::npos);
  f.driver->click("tools/form/running/cancel");
  REQUIRE(f.driver->wait([&] { return !f.app->jobs().is_running(); }, 60));
}

TEST_CASE("keys: the button of the window asks about a draft as Ctrl+Q does") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->key(GLFW_KEY_ESCAPE);  // leaves the field: else a frame is drawn before the end
  CHECK(f.app->may_close());
  f.driver->fill(kMessage, "not sent");
  test::shared_window()->close();
  f.driver->frames(3);  // fails if the window closes
  REQUIRE(f.app->toasts().all().size() == 1);
  CHECK(f.app->toasts().all().front().text.starts_with("A message is not sent yet."));
  f.driver->key(GLFW_KEY_ESCAPE);
  CHECK(f.app->may_close());  // the second time
}

TEST_CASE("keys: closing asks about a draft of another conversation, and about an edit") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click(f.message(0, "edit"));
  f.driver->frames(5);
  f.driver->key(GLFW_KEY_ESCAPE);
  CHECK(f.app->may_close());  // nothing is changed yet
  f.driver->fill(f.message(0, "editor/text"), "Hello again!");
  f.driver->key(GLFW_KEY_ESCAPE);
  CHECK_FALSE(f.app->may_close());
  Fixture g(AppOptions{});
  g.driver->fill(kMessage, "not sent");
  g.driver->key(GLFW_KEY_ESCAPE);
  CHECK_FALSE(g.app->may_close());
}

TEST_CASE("keys: letters without a Latin one are where they are in the US") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "abc");
  follow_layout([](int key) -> const char* { return key >= GLFW_KEY_A ? "ф" : us_name(key); });
  f.driver->key(GLFW_KEY_A, true);
  f.driver->type("new");
  CHECK(f.driver->text(kMessage) == "new");
  follow_layout(us_name);
}

TEST_CASE("keys: Escape keeps what was typed and stops the answer") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->fill(kMessage, "A draft of one\nor two lines");
  f.driver->key(GLFW_KEY_ESCAPE);
  CHECK(f.driver->text(kMessage) == "A draft of one\nor two lines");
  CHECK_FALSE(f.driver->find(kMessage)->on);
  f.answer_without_end();
  f.begin("Tell me a long story about a lighthouse.");
  f.driver->fill(kMessage, "The next one");
  f.driver->key(GLFW_KEY_ESCAPE);
  f.wait_for_answer();
  CHECK(f.driver->text(kMessage) == "The next one");
  CHECK(f.shown().back().message->state == conversations::State::stopped);
}

TEST_CASE("keys: who comes back to the chat can write at once") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  for (const int page : {GLFW_KEY_3, GLFW_KEY_1}) {
    f.driver->key(page, true);
    f.driver->frames(3);
  }
  f.driver->type("typed after that");
  CHECK(f.driver->text(kMessage) == "typed after that");
}

TEST_CASE("keys: Escape in another field does not stop the answer") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.begin("Tell me a long story about a lighthouse.");
  f.driver->click("chat/left/conversations/search");
  f.driver->key(GLFW_KEY_ESCAPE);
  f.wait_for_answer();
  CHECK(f.shown().back().message->state == conversations::State::complete);
}

TEST_CASE("keys: what is open has the keys") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.begin("Tell me a long story about a lighthouse.");
  const Id id = f.app->chat().current();
  f.driver->key(GLFW_KEY_F1);
  REQUIRE(f.driver->shows("help/close"));
  f.driver->key(GLFW_KEY_2, true);
  CHECK(f.driver->shows(kMessage));
  f.driver->key(GLFW_KEY_N, true);
  CHECK(f.app->chat().current() == id);
  f.driver->key(GLFW_KEY_ESCAPE);
  CHECK_FALSE(f.driver->shows("help/close"));
  f.wait_for_answer();
  CHECK(f.shown().back().message->state == conversations::State::complete);
  // A list that Escape closes before a frame begins.
  f.driver->click("chat/left/conversations/new");
  f.begin("Tell me a long story about a lighthouse.");
  const std::string row =
      "chat/left/conversations/list/conversation:" + std::to_string(f.app->chat().current());
  f.driver->click(row + "/open", 1);
  f.driver->key(GLFW_KEY_ESCAPE);
  f.wait_for_answer();
  CHECK(f.shown().back().message->state == conversations::State::complete);
}

using Kind = KeyEvent::Kind;
using Frames = std::vector<std::vector<KeyEvent>>;

KeyEvent down(int key) { return {Kind::press, key}; }
KeyEvent up(int key) { return {Kind::release, key}; }
KeyEvent types(char c) { return {Kind::character, c}; }

KeyEvent click(bool down, float x = 0, float y = 0) {
  return {down ? Kind::button_press : Kind::button_release, 0, x, y};
}

/// What each frame gets of these events.
Frames frames_of(const std::vector<KeyEvent>& events) {
  KeyQueue queue;
  for (const KeyEvent& event : events) queue.add(event);
  Frames frames;
  while (!queue.empty()) {
    frames.emplace_back();
    queue.give_frame([&](const KeyEvent& event) { frames.back().push_back(event); });
    REQUIRE_FALSE(frames.back().empty());
  }
  return frames;
}

TEST_CASE("a key goes down and up in different frames") {
  CHECK(frames_of({down('A'), up('A')}) == Frames{{down('A')}, {up('A')}});
  CHECK(frames_of({up('A'), down('A')}) == Frames{{up('A')}, {down('A')}});
  CHECK(frames_of({down('A'), up('A'), down('A'), up('A')}) ==
        Frames{{down('A')}, {up('A')}, {down('A')}, {up('A')}});
}

TEST_CASE("keys and characters keep their order") {
  CHECK(frames_of({down('A'), types('a'), up('A'), down('B'), types('b'), up('B')}) ==
        Frames{{down('A'), types('a')}, {up('A'), down('B'), types('b')}, {up('B')}});
  // ImGui takes the characters of a frame before its keys.
  CHECK(frames_of({types('a'), down(GLFW_KEY_BACKSPACE), down('B'), types('b')}) ==
        Frames{{types('a')}, {down(GLFW_KEY_BACKSPACE)}, {down('B'), types('b')}});
  // Ctrl is held in the frame that has A, whichever of them goes up first.
  const int control = GLFW_KEY_LEFT_CONTROL;
  CHECK(frames_of({down(control), down('A'), up('A'), up(control)}) ==
        Frames{{down(control)}, {down('A')}, {up('A'), up(control)}});
  CHECK(frames_of({down(control), down('A'), up(control), up('A')}) ==
        Frames{{down(control)}, {down('A')}, {up(control), up('A')}});
  // A character that no key typed: of an input method.
  CHECK(frames_of({types('a'), types('b')}) == Frames{{types('a'), types('b')}});
}

TEST_CASE("a button of the mouse waits for the keys before it, and later keys for the button") {
  CHECK(frames_of({down('A'), types('a'), up('A'), click(true), click(false)}) ==
        Frames{{down('A'), types('a')}, {up('A'), click(true)}, {click(false)}});
  CHECK(frames_of({types('a'), click(true), types('b'), click(false), down('C')}) ==
        Frames{{types('a')}, {click(true)}, {types('b')}, {click(false)}, {down('C')}});
  KeyQueue queue;
  queue.add(down('A'));
  CHECK_FALSE(queue.has_button());
  queue.add(click(true));
  CHECK(queue.has_button());
}

TEST_CASE("keys: what was typed before a click goes where it was typed") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "");
  const std::string search = "chat/left/conversations/search";
  const ui::Drawn field = *f.driver->find(search);
  Window& window = *test::shared_window();
  const auto inject = std::exchange(window.on_input, {});  // which moves the mouse itself
  const auto type = [&](const std::string& text) {
    for (const char c : text) {
      const int key = c - 'a' + GLFW_KEY_A;
      for (const KeyEvent& event : {down(key), types(c), up(key)}) window.take_key(event);
    }
  };
  const float x = (field.left + field.right) / 2;
  const float y = (field.top + field.bottom) / 2;
  type("abcdefghijklmnopqrstuvwxyz");
  window.take_key(click(true, x, y));
  window.take_key(click(false, x, y));
  type("lamp");
  f.driver->rest();
  CHECK(f.driver->text(kMessage) == "abcdefghijklmnopqrstuvwxyz");
  CHECK(f.driver->text(search) == "lamp");
  window.on_input = inject;
}

TEST_CASE("keys: Escape that stops an answer leaves the keyboard where it is") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.answer_without_end();
  f.begin("Hello!");
  f.driver->type("abc");
  f.driver->key(GLFW_KEY_ESCAPE);
  f.driver->type("def");
  CHECK(f.driver->text(kMessage) == "abcdef");
  f.wait_for_answer();
  CHECK(f.shown().back().message->state == conversations::State::stopped);
  f.driver->key(GLFW_KEY_ESCAPE);  // now it leaves the field
  f.driver->type("x");
  CHECK(f.driver->text(kMessage) == "abcdef");
}

TEST_CASE("keys: those that are faster than frames are not lost") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "");
  Window& window = *test::shared_window();
  const auto press = [&](int key, char typed = 0) {
    window.take_key(down(key));
    if (typed != 0) window.take_key(types(typed));
    window.take_key(up(key));
  };
  const auto settle = [&] {
    for (int64_t before = -1; before != window.frames();) {
      before = window.frames();
      for (int i = 0; i < 10; ++i) window.turn(*f.app, 0.02);
    }
  };
  const auto inject = std::exchange(window.on_input, {});  // which presses keys itself
  for (const char c : std::string("quick brown fox")) {
    press(c == ' ' ? GLFW_KEY_SPACE : c - 'a' + GLFW_KEY_A, c);
  }
  press(GLFW_KEY_BACKSPACE);
  press(GLFW_KEY_N, 'n');
  settle();
  CHECK(f.driver->text(kMessage) == "quick brown fon");
  for (const KeyEvent& event :
       {down(GLFW_KEY_LEFT_CONTROL), down(GLFW_KEY_2), up(GLFW_KEY_LEFT_CONTROL), up(GLFW_KEY_2)}) {
    window.take_key(event);
  }
  settle();
  CHECK(f.driver->shows("models/left/filter"));
  window.on_input = inject;
}

/// The controls of the page that keys can reach.
std::set<std::string> controls() {
  static const std::set<std::string> kinds{"button",  "checkbox", "slider", "choice",
                                           "segment", "input",    "fold",   "row"};
  std::set<std::string> names;
  for (const ui::Drawn& drawn : ui::record()) {
    if (drawn.enabled && kinds.contains(drawn.kind)) names.insert(drawn.name);
  }
  return names;
}

std::string focused() {
  const auto found = std::ranges::find(ui::record(), true, &ui::Drawn::focused);
  return found == ui::record().end() ? std::string() : found->name;
}

TEST_CASE("keys: Tab goes round all controls of every page") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  for (const int page : {GLFW_KEY_1, GLFW_KEY_2, GLFW_KEY_3, GLFW_KEY_4, GLFW_KEY_5}) {
    f.driver->key(page, true);
    f.driver->frames(3);
    std::set<std::string> reached;
    std::string last;
    do {
      last = focused();
      f.driver->key(GLFW_KEY_TAB);
    } while (reached.insert(focused()).second);
    for (const std::string& name : controls()) CHECK_MESSAGE(reached.contains(name), name);
    f.driver->key(GLFW_KEY_TAB, false, true);
    CHECK(focused() == last);
  }
}

TEST_CASE("keys: Tab leaves a field and keeps what was typed, and stays in a dialogue") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "A draft");
  f.driver->key(GLFW_KEY_TAB, false, true);
  CHECK(focused() == "chat/middle/options");
  f.driver->key(GLFW_KEY_TAB);
  CHECK(f.driver->find(kMessage)->on);
  f.driver->key(GLFW_KEY_END);
  f.driver->type(" of mine");
  CHECK(f.driver->text(kMessage) == "A draft of mine");
  f.driver->key(GLFW_KEY_F1);
  for (int i = 0; i < 3; ++i) f.driver->key(GLFW_KEY_TAB);
  CHECK(focused() == "help/close");
  f.driver->key(GLFW_KEY_SPACE);
  CHECK_FALSE(f.driver->shows("help/close"));
}

TEST_CASE("keys: arrows enter a page, and its controls do what they do") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->key(GLFW_KEY_5, true);
  for (int i = 0; i < 40 && focused() != "top/page/Chat"; ++i) f.driver->key(GLFW_KEY_TAB);
  f.driver->key(GLFW_KEY_DOWN);
  REQUIRE(focused() == "settings/all/theme");
  f.driver->key(GLFW_KEY_SPACE);
  f.driver->key(GLFW_KEY_DOWN);
  f.driver->key(GLFW_KEY_ENTER);
  CHECK(f.app->settings().get().theme == "light");
  const auto down_to = [&](const std::string& name) {
    for (int i = 0; i < 20 && focused() != name; ++i) f.driver->key(GLFW_KEY_DOWN);
    REQUIRE(focused() == name);
  };
  const std::string path = "settings/all/import/path";
  down_to(path);
  f.driver->key(GLFW_KEY_ENTER);
  CHECK(f.driver->find(path)->on);
  f.driver->type("/nowhere.json");
  f.driver->key(GLFW_KEY_ESCAPE);
  CHECK_FALSE(f.driver->find(path)->on);
  CHECK(f.driver->text(path) == "/nowhere.json");
  f.driver->key(GLFW_KEY_RIGHT);
  REQUIRE(focused() == "settings/all/import/do");
  f.driver->key(GLFW_KEY_SPACE);
  REQUIRE(f.driver->wait([&] { return !f.app->toasts().all().empty(); }));
  // The notice is the last that Tab reaches.
  down_to("settings/all/export/path");
  f.driver->key(GLFW_KEY_TAB);
  CHECK(focused().starts_with("toasts/"));
  f.driver->key(GLFW_KEY_SPACE);
  CHECK(f.app->toasts().all().empty());
}

}  // namespace
}  // namespace infer::gui
