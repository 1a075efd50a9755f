// The field of several lines, in the window.
#include <GLFW/glfw3.h>
#include <doctest/doctest.h>
#include <imgui.h>

#include <string>

#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;

std::string words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? " word" : "word") + std::to_string(i);
  return text;
}

void paste(Fixture& f, const std::string& text) {
  ImGui::SetClipboardText(text.c_str());
  f.driver->key(GLFW_KEY_V, true);
}

TEST_CASE("text area: a long line is broken, and the field grows with it") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click(kMessage);
  f.driver->frames(4);
  const ui::Drawn before = *f.driver->find(kMessage);
  paste(f, words(120));
  f.driver->frames(4);
  const ui::Drawn after = *f.driver->find(kMessage);
  CHECK(after.text == words(120));
  CHECK(after.bottom - after.top > 1.5f * (before.bottom - before.top));
  CHECK(after.right - after.left == doctest::Approx(before.right - before.left));
}

TEST_CASE("text area: tabs stay, and line ends become those of a text") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click(kMessage);
  paste(f, "all:\r\n\tgcc -o x x.c\r\ncol1\tcol2");
  CHECK(f.driver->text(kMessage) == "all:\n\tgcc -o x x.c\ncol1\tcol2");
  f.driver->key(GLFW_KEY_A, true);
  f.driver->key(GLFW_KEY_X, true);
  CHECK(f.driver->text(kMessage).empty());
  CHECK(std::string(ImGui::GetClipboardText()) == "all:\n\tgcc -o x x.c\ncol1\tcol2");
}

TEST_CASE("text area: the caret goes by lines as they are shown") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click(kMessage);
  paste(f, words(120));
  f.driver->key(GLFW_KEY_HOME);
  f.driver->type("<");
  const std::string text = f.driver->text(kMessage);
  const size_t last = text.find('<');
  CHECK(last > 0);  // of the last line, not of the text
  f.driver->key(GLFW_KEY_UP);
  f.driver->key(GLFW_KEY_END);
  f.driver->type(">");
  CHECK(f.driver->text(kMessage).find('>') < last + 1);
  CHECK(f.driver->text(kMessage).find('>') > 0);
  f.driver->key(GLFW_KEY_HOME, true);
  f.driver->type("[");
  f.driver->key(GLFW_KEY_END, true);
  f.driver->type("]");
  CHECK(f.driver->text(kMessage).front() == '[');
  CHECK(f.driver->text(kMessage).back() == ']');
  f.driver->key(GLFW_KEY_UP, false, true);  // selects to the line above
  f.driver->key(GLFW_KEY_DELETE);
  CHECK(f.driver->text(kMessage).back() != ']');
}

TEST_CASE("text area: the mouse sets the caret and selects") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "alpha beta");
  f.driver->drag(kMessage, 0.0f, 0.2f, 0.9f, 0.2f);
  f.driver->type("x");
  CHECK(f.driver->text(kMessage) == "x");
  f.driver->fill(kMessage, "alpha\nbeta");
  f.driver->drag(kMessage, 0.9f, 0.2f, 0.9f, 0.21f);  // behind the first line
  f.driver->type("!");
  CHECK(f.driver->text(kMessage) == "alpha!\nbeta");
}

TEST_CASE("text area: undo and redo") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->fill(kMessage, "one");
  paste(f, " two");
  f.driver->key(GLFW_KEY_BACKSPACE, true);
  CHECK(f.driver->text(kMessage) == "one ");
  f.driver->key(GLFW_KEY_Z, true);
  CHECK(f.driver->text(kMessage) == "one two");
  f.driver->key(GLFW_KEY_Z, true);
  CHECK(f.driver->text(kMessage) == "one");
  f.driver->key(GLFW_KEY_Y, true);
  CHECK(f.driver->text(kMessage) == "one two");
}

TEST_CASE("text area: Enter sends, with Shift or Ctrl it adds a line") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->fill(kMessage, "Hello");
  f.driver->key(GLFW_KEY_ENTER, false, true);
  f.driver->key(GLFW_KEY_ENTER, true);
  f.driver->type("there");
  CHECK(f.driver->text(kMessage) == "Hello\n\nthere");
  f.driver->key(GLFW_KEY_ENTER);
  REQUIRE(f.driver->wait([&] { return !f.shown().empty(); }));
  CHECK(f.shown().front().text() == "Hello\n\nthere");
  f.driver->type("more");  // the field has kept the keyboard
  CHECK(f.driver->text(kMessage) == "more");
}

TEST_CASE("text area: a text of a megabyte can be scrolled and written in") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click(kMessage);
  std::string text;
  while (text.size() < 1'000'000) text += "A line of a very long text, which goes on.\n";
  paste(f, text);
  CHECK(f.driver->text(kMessage).size() == text.size());
  f.driver->scroll(kMessage, -30);
  f.driver->type("end");
  CHECK(f.driver->text(kMessage).size() == text.size() + 3);
}

}  // namespace
}  // namespace infer::gui
