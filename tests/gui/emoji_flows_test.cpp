// Emoji and what else ImGui's characters cannot hold, in the fields of the window.
#include <GLFW/glfw3.h>

#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;

const std::string kTitle = "chat/left/conversations/rename/title";
const std::string kFamily = "Family 👨‍👩‍👧 👍🏽 🇩🇪 𝒳 \uE000";

TEST_CASE("chat: a title with emoji is given, and stays as it is when it is edited") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello 🚀");
  CHECK(f.shown()[0].message->text == "Hello 🚀");
  CHECK(f.driver->text("chat/middle/title") == "Hello 🚀");
  const auto is_called = [&](const std::string& title) {
    return f.driver->wait([&] { return f.app->chat().title() == title; });
  };
  // The library that reads keys gives no characters of the private use area.
  glfwSetClipboardString(nullptr, (kFamily + "\n").c_str());
  f.driver->key(GLFW_KEY_F2);
  f.driver->fill(kTitle, "");
  f.driver->key(GLFW_KEY_V, true);
  CHECK(f.driver->text(kTitle) == kFamily);
  f.driver->click("chat/left/conversations/rename/save");
  CHECK(is_called(kFamily));
  f.driver->key(GLFW_KEY_F2);
  f.driver->click(kTitle);
  f.driver->key(GLFW_KEY_END);
  f.driver->type("🎉!");
  f.driver->key(GLFW_KEY_BACKSPACE);
  CHECK(f.driver->text(kTitle) == kFamily + "🎉");
  f.driver->key(GLFW_KEY_Z, true);
  f.driver->key(GLFW_KEY_A, true);
  f.driver->key(GLFW_KEY_C, true);
  CHECK(glfwGetClipboardString(nullptr) == kFamily + "🎉!");
  f.driver->click("chat/left/conversations/rename/save");
  CHECK(is_called(kFamily + "🎉!"));
}

TEST_CASE("chat: a message keeps the tabs and the emoji that are pasted, and Tab goes on") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const std::string code = "if x:\n\treturn \"✅ 😀\"\n";
  glfwSetClipboardString(nullptr, code.c_str());
  f.driver->fill(kMessage, "");
  f.driver->key(GLFW_KEY_V, true);
  CHECK(f.driver->text(kMessage) == code);
  CHECK(f.driver->find(kMessage)->on);
  f.driver->key(GLFW_KEY_TAB);
  CHECK(f.driver->text(kMessage) == code);
  CHECK_FALSE(f.driver->find(kMessage)->on);
  f.driver->click(kMessage);  // the next test begins with the mouse, as others do
}

}  // namespace
}  // namespace infer::gui
