// A message on the screen: what is drawn, what the mouse and the keys do.
#include "gui/text/text_view.h"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "gui/fonts.h"
#include "tests/gui/imgui_frame.h"
#include "tests/gui/text_support.h"

using namespace infer::gui;
using infer::test::ImGuiFrames;
using infer::test::repeated;

namespace {

constexpr ImU32 kText = IM_COL32(1, 1, 1, 255), kLinkColour = IM_COL32(2, 2, 2, 255);
constexpr ImU32 kSelection = IM_COL32(3, 3, 3, 255), kFaint = IM_COL32(4, 4, 4, 255);
constexpr ImU32 kCodeBack = IM_COL32(5, 5, 5, 255), kKeyword = IM_COL32(6, 6, 6, 255);

/// A window with one message. The default font is 7 pixels wide and 13 high.
struct Window {
  explicit Window(float width = 800, float height = 600) : frames(width, height), width(width) {
    for (TextFont& font : context.look.fonts) font = {ImGui::GetIO().Fonts->Fonts[0], 13};
    TextColours& c = context.look.colours;
    c.text = kText;
    c.link = kLinkColour;
    c.selection = kSelection;
    c.faint = kFaint;
    c.code_background = kCodeBack;
    c.code_header = c.inline_code = c.quote_bar = c.line = c.table_header = c.scroll_bar =
        IM_COL32(9, 9, 9, 255);
    c.tokens.fill(kText);
    c.tokens[static_cast<size_t>(Token::keyword)] = kKeyword;
    content = [this] { view.draw("message", this->width, context); };
  }

  void show(std::string_view text) {
    view.set(text);
    for (int i = 0; i < 3 || !view.is_settled(); ++i) frames.frame(content);
  }

  ImGuiFrames frames;
  TextContext context;
  TextView view;
  float width;
  std::function<void()> content;
};

}  // namespace

TEST_CASE("text is drawn within the width") {
  Window w(300, 600);
  w.show(repeated("some words of prose ", 40));
  const auto text = ImGuiFrames::extent(kText);
  CHECK(text.vertices > 1000);
  CHECK(text.max.x <= 300);
  CHECK(text.min.x >= 0);
  CHECK(w.view.height(300, w.context) > 100);
}

TEST_CASE("emphasis leans to the right, whatever else the line has") {
  Window w;
  w.show("llll");
  const auto upright = ImGuiFrames::extent(kText);
  for (const char* const text : {"*llll*", "***llll***"}) {
    w.show(text);
    const auto slanted = ImGuiFrames::extent(kText);
    CHECK(slanted.vertices == upright.vertices);
    CHECK(slanted.max.x > upright.max.x + 1);
    CHECK(slanted.max.y == upright.max.y);
  }
  w.show("**llll**");
  CHECK(ImGuiFrames::extent(kText).max.x == upright.max.x);
}

TEST_CASE("a press and a drag select, Ctrl+C copies plain text") {
  Window w;
  w.show("one **two** three\n\nfour `five`\n\n```c\nint six;\n```\n");
  w.frames.drag({7 * 4 + 1, 5}, {7 * 7 + 1, 5}, w.content);
  CHECK_EQ(w.view.selected_text(), "two");
  CHECK(ImGuiFrames::extent(kSelection).vertices == 4);
  w.frames.press(ImGuiKey_C, true, false, w.content);
  CHECK_EQ(w.frames.clipboard, "two");
  // Over all blocks, into the code.
  w.frames.drag({7 * 4 + 1, 5}, {780, 595}, w.content);
  CHECK_EQ(w.view.selected_text(), "two three\n\nfour five\n\nint six;");
  w.frames.press(ImGuiKey_A, true, false, w.content);
  w.frames.press(ImGuiKey_C, true, false, w.content);
  CHECK_EQ(w.frames.clipboard, "one two three\n\nfour five\n\nint six;");
  w.frames.press(ImGuiKey_Escape, false, false, w.content);
  CHECK_EQ(w.view.selected_text(), "");
}

TEST_CASE("a double click selects a word, a third one the paragraph") {
  Window w;
  w.show("one two three\n\nfour");
  w.frames.click({7 * 5, 5}, 2, w.content);
  CHECK_EQ(w.view.selected_text(), "two");
  w.frames.click({7 * 5, 5}, 3, w.content);
  CHECK_EQ(w.view.selected_text(), "one two three");
  w.frames.click({7 * 5, 5}, 1, w.content);
  CHECK_EQ(w.view.selected_text(), "");
}

TEST_CASE("shift extends the selection") {
  Window w;
  w.show("one two three");
  w.frames.click({1, 5}, 1, w.content);
  w.frames.press(ImGuiKey_RightArrow, false, true, w.content);
  CHECK_EQ(w.view.selected_text(), "o");
  w.frames.press(ImGuiKey_RightArrow, true, true, w.content);
  CHECK_EQ(w.view.selected_text(), "one");
  w.frames.press(ImGuiKey_LeftArrow, false, true, w.content);
  CHECK_EQ(w.view.selected_text(), "on");
  w.frames.press(ImGuiKey_End, false, true, w.content);
  CHECK_EQ(w.view.selected_text(), "one two three");
  ImGui::GetIO().KeyShift = true;
  w.frames.click({7 * 7 + 1, 5}, 1, w.content);
  ImGui::GetIO().KeyShift = false;
  CHECK_EQ(w.view.selected_text(), "one two");
}

TEST_CASE("cells of a table are copied with tabs") {
  Window w;
  w.show("| a | b |\n|--|--|\n| c | d |\n");
  w.frames.click({5, 5}, 1, w.content);
  w.frames.press(ImGuiKey_A, true, false, w.content);
  w.frames.press(ImGuiKey_C, true, false, w.content);
  CHECK_EQ(w.frames.clipboard, "a\tb\nc\td\n");
}

TEST_CASE("a click on a link asks, a drag over it does not") {
  Window w;
  std::vector<std::string> opened;
  w.context.actions.open_link = [&](const std::string& address) { opened.push_back(address); };
  w.show("[link](https://a.b) and text");
  CHECK(ImGuiFrames::extent(kLinkColour).vertices > 0);
  w.frames.click({10, 5}, 1, w.content);
  CHECK_EQ(opened, std::vector<std::string>{"https://a.b"});
  w.frames.drag({3, 5}, {20, 5}, w.content);
  w.frames.click({7 * 10, 5}, 1, w.content);
  CHECK_EQ(opened.size(), 1);
  CHECK(is_web_address("HTTPS://a"));
  CHECK(is_web_address("mailto:a@b"));
  CHECK_FALSE(is_web_address("file:///etc/passwd"));
  CHECK_FALSE(is_web_address("javascript:alert(1)"));
  CHECK_FALSE(is_web_address("http:x"));
}

TEST_CASE("the copy button copies the code") {
  Window w;
  w.show("```python\nreturn 1\n```\n");
  CHECK(ImGuiFrames::extent(kKeyword).vertices > 0);
  CHECK(ImGuiFrames::extent(kCodeBack).max.x > 798);
  w.frames.click({780, 8}, 1, w.content);
  CHECK_EQ(w.frames.clipboard, "return 1");
  // The window may draw its own button.
  std::vector<std::string> languages;
  bool press = false;
  w.context.actions.copy_button = [&](const CopyButton& button) {
    languages.emplace_back(button.language);
    CHECK(button.max.x == 800);
    return press;
  };
  w.frames.clipboard.clear();
  w.frames.frame(w.content);
  CHECK_EQ(w.frames.clipboard, "");
  press = true;
  w.frames.frame(w.content);
  CHECK_EQ(w.frames.clipboard, "return 1");
  CHECK_EQ(languages, std::vector<std::string>{"python", "python"});
}

TEST_CASE("a missing glyph is a box of stable width and is asked for") {
  Window w;
  std::vector<char32_t> needed;
  w.context.actions.needs = [&](char32_t code) { needed.push_back(code); };
  w.show("a👍b\u4E2D\u00A0\u2003c");
  CHECK_EQ(std::count(needed.begin(), needed.end(), U'\U0001F44D') > 0, true);
  CHECK_EQ(std::count(needed.begin(), needed.end(), U'\u4E2D') > 0, true);
  CHECK_EQ(std::count(needed.begin(), needed.end(), U'a'), 0);
  CHECK_EQ(std::count(needed.begin(), needed.end(), U'\u2003'), 0);
  CHECK(ImGuiFrames::extent(kFaint).vertices >= 8);
  CHECK(box_width(w.context.look.fonts[0], U'👍') > 13);
}

TEST_CASE("marks without a glyph are asked for") {
  Window w;
  std::vector<char32_t> needed;
  w.context.actions.needs = [&](char32_t code) { needed.push_back(code); };
  w.show("Cafe\u0301 in Zu\u0308rich, \u2764\uFE0F, `e\u0323`");
  for (const char32_t mark : {U'\u0301', U'\u0308', U'\u0323'}) {
    CHECK_EQ(std::count(needed.begin(), needed.end(), mark) > 0, true);
  }
  CHECK_EQ(std::count(needed.begin(), needed.end(), U'\uFE0F'), 0);
  // Until they come there is nothing in their place, in prose and in code.
  for (const std::string before : {"", "    "}) {
    w.show(before + "He");
    const size_t vertices = ImGuiFrames::extent().vertices;
    w.show(before + "He\u0301");
    CHECK(ImGuiFrames::extent().vertices == vertices);
  }
}

TEST_CASE("marks are drawn over their letters, also in code") {
  ImGuiFrames frames;
  Fonts fonts([](uint32_t, FontLook) { return FontFile{}; });
  fonts.need(0x0301);
  fonts.build(16);
  TextContext context;
  for (const FontKind kind : {FontKind::text, FontKind::code}) {
    for (TextFont& font : context.look.fonts) font = {fonts.font(kind), 16};
    context.look.colours.text = kText;
    const auto right_edge = [&](std::string_view text) {
      TextView view;
      view.set(text);
      for (int i = 0; i < 3 || !view.is_settled(); ++i) {
        frames.frame([&] { view.draw("message", 800, context); });
      }
      return ImGuiFrames::extent(kText).max.x;
    };
    CHECK(right_edge("He\u0301") < right_edge("He") + 1);
  }
}

TEST_CASE("only what is visible is drawn and laid out again") {
  Window w;
  const std::string paragraph = "A paragraph with **some** words in it, and `code`.\n\n";
  w.show(repeated(paragraph, 20'000));
  CHECK(w.view.source().size() > 1'000'000);
  const TextView::Work before = w.view.work();
  constexpr int kFrames = 100;
  for (int i = 0; i < kFrames; ++i) {
    w.view.append("token ");
    w.frames.frame(w.content);
  }
  const TextView::Work& after = w.view.work();
  CHECK(after.lines_drawn - before.lines_drawn < kFrames * 50);
  CHECK(after.laid_out_bytes - before.laid_out_bytes < kFrames * 1000);
  CHECK(ImGuiFrames::extent().vertices < 50'000);
}

TEST_CASE("a code block of a megabyte grows at the price of its last line") {
  Window w;
  const std::string code = "```cpp\n" + repeated("int value = compute(1, 2);  // why\n", 30'000);
  w.view.append(code);
  for (int i = 0; i < 3 || !w.view.is_settled(); ++i) w.frames.frame(w.content);
  const size_t before = w.view.work().laid_out_bytes;
  for (int i = 0; i < 200; ++i) {
    w.view.append("int x;");
    if (i % 4 == 3) w.view.append("\n");
    w.frames.frame(w.content);
  }
  CHECK(w.view.work().laid_out_bytes - before < 200 * 100);
}

TEST_CASE("a long message is laid out over several frames and the view does not jump") {
  Window w;
  w.view.set(repeated("Words that are wrapped somewhere in the width.\n\n", 20'000));
  w.frames.frame(w.content);
  CHECK_FALSE(w.view.is_settled());
  const float first = w.view.height(800, w.context);
  int frames = 0;
  while (!w.view.is_settled() && frames < 1000) {
    w.frames.frame(w.content);
    ++frames;
  }
  CHECK(frames > 3);
  CHECK(frames < 100);
  const float exact = w.view.height(800, w.context);
  CHECK(first > exact / 2);
  CHECK(first < exact * 2);
  // Another width: what is above the visible part changes, and the view says by how much.
  float scroll = exact / 2;
  const auto scrolled = [&] {
    ImGui::SetScrollY(scroll);
    w.content();
    scroll += w.view.shift();
  };
  w.frames.frame(scrolled);
  w.frames.frame(scrolled);
  w.width = 200;
  float shifts = 0;
  for (int i = 0; i < 200; ++i) {
    w.frames.frame(scrolled);
    shifts += std::abs(w.view.shift());
  }
  CHECK(w.view.is_settled());
  CHECK(shifts > 0);
}

TEST_CASE("a conversation that is opened is parsed over several frames") {
  Window w;
  std::vector<std::unique_ptr<TextView>> views;
  for (int i = 0; i < 40; ++i) {
    views.push_back(std::make_unique<TextView>());
    views.back()->set(repeated("Some words of a message.\n\n", 1000));
  }
  const auto settled = [&] {
    float height = 0;
    for (const auto& view : views) height += view->height(800, w.context);
    CHECK(height > 100'000);
    return std::ranges::count_if(views, [](const auto& view) { return view->is_settled(); });
  };
  ptrdiff_t count = 0;
  w.frames.frame([&] { count = settled(); });
  CHECK(count < 20);
  for (int i = 0; i < 200; ++i) w.frames.frame([&] { count = settled(); });
  CHECK_EQ(count, 40);
}

TEST_CASE("a wide table scrolls within its place") {
  Window w(200, 400);
  w.show("|" + repeated("a_long_word_here|", 12) + "\n|" + repeated("--|", 12) + "\n|" +
         repeated("b|", 12) + "\n");
  const float height = w.view.height(200, w.context);
  w.frames.drag({20, height - 3}, {120, height - 3}, w.content);
  w.frames.frame(w.content);
  ImGui::GetIO().MouseWheelH = -2;
  w.frames.frame(w.content);
  ImGui::GetIO().MouseWheelH = 0;
  w.frames.frame(w.content);
  CHECK(w.view.height(200, w.context) == height);
}

TEST_CASE("hostile messages are drawn within the display") {
  for (const auto& [name, text] : infer::test::hostile_texts(1 << 15)) {
    CAPTURE(name);
    Window w(320, 240);
    w.show(text);
    w.frames.click({100, 100}, 3, w.content);
    w.frames.press(ImGuiKey_A, true, false, w.content);
    w.frames.press(ImGuiKey_DownArrow, false, true, w.content);
    w.frames.press(ImGuiKey_C, true, false, w.content);
    // What is drawn may stand out of the display only where it is cut: by a table's clip or by
    // lines that are partly visible.
    CHECK(ImGuiFrames::extent(kText).max.x < 400);
    CHECK(ImGuiFrames::extent().vertices < 60'000);
  }
}

TEST_CASE("streaming all texts piece by piece draws them") {
  for (const auto& [name, text] : infer::test::hostile_texts(600)) {
    CAPTURE(name);
    Window w(320, 240);
    for (size_t at = 0; at < text.size(); at += 13) {
      w.view.append(std::string_view(text).substr(at, 13));
      w.frames.frame(w.content);
    }
    w.view.finish();
    w.frames.frame(w.content);
    CHECK(w.view.is_settled());
  }
}
