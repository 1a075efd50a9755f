// Characters that ImGui cannot hold: what stands for them, in texts and in fields.
#include "gui/text/stand_ins.h"

#include <doctest.h>
#include <imgui.h>
#include <imgui_internal.h>
#include <imgui_stdlib.h>

#include <string>

#include "gui/text/clipboard.h"
#include "gui/ui/field_text.h"
#include "tests/gui/imgui_frame.h"

using namespace infer::gui;
using infer::test::ImGuiFrames;

namespace {

std::string drawn(std::string_view text) {
  std::string space;
  return std::string(drawn_text(text, space));
}

/// Once there and back, as a field sees it.
std::string edited(std::string_view text) {
  std::string space;
  std::string_view shown;
  REQUIRE(editable_text(text, space, shown));
  return without_stand_ins(shown);
}

}  // namespace

TEST_CASE("stand-ins: what has 16 bits stands for itself, the rest has one of its own") {
  StandIns table;
  for (const char32_t code : {U'a', U'é', U'語', U'✅', U'\uFFFD'}) {
    CHECK(table.of(code, StandInUse::drawing) == code);
    CHECK(table.code_of(code) == code);
  }
  const char32_t face = table.of(0x1F600, StandInUse::drawing);
  const char32_t rocket = table.of(0x1F680, StandInUse::editing);
  const char32_t own = table.of(0xE000, StandInUse::drawing);  // of the private use area itself
  CHECK(face != rocket);
  CHECK(own != face);
  for (const char32_t each : {face, rocket, own}) {
    CHECK(each >= 0xE000);
    CHECK(each <= 0xF8FF);
  }
  CHECK(table.code_of(face) == 0x1F600);
  CHECK(table.code_of(rocket) == 0x1F680);
  CHECK(table.code_of(own) == 0xE000);
  CHECK(table.of(0x1F600, StandInUse::editing) == face);
  CHECK(table.of(0x110000, StandInUse::drawing) == kUnknownCharacter);
}

TEST_CASE("stand-ins: when they run out, fields have some left, and nothing changes its own") {
  StandIns table;
  const char32_t first = table.of(0x20000, StandInUse::drawing);
  char32_t code = 0x20000;
  while (table.of(code, StandInUse::drawing) != kUnknownCharacter) ++code;
  CHECK(code - 0x20000 == 5400);
  CHECK(table.of(code, StandInUse::editing) != kUnknownCharacter);
  CHECK(table.of(code, StandInUse::drawing) != kUnknownCharacter);
  while (table.of(code, StandInUse::editing) != kUnknownCharacter) ++code;
  CHECK(code - 0x20000 == 6400);
  CHECK(table.of(0x20000, StandInUse::drawing) == first);
  CHECK(table.code_of(0xF8FF) == code - 1);
}

TEST_CASE("stand-ins: a text without such characters is not copied") {
  const std::string text = "plain, accentué, 日本語, ✅";
  std::string space;
  CHECK(drawn_text(text, space).data() == text.data());
  std::string_view shown;
  REQUIRE(editable_text(text, space, shown));
  CHECK(shown.data() == text.data());
  CHECK_FALSE(has_stand_ins(text));
}

TEST_CASE("stand-ins: texts come back from fields as they were") {
  for (const std::string text : {"😀", "a😀b🚀c", "👍🏽 👨‍👩‍👧 🇩🇪 ✔️",
                                 "\U0010FFFF\uE000\uF8FFx", "𝒳𠀀"}) {
    CHECK(edited(text) == text);
    CHECK(has_stand_ins(drawn(text)));
  }
}

TEST_CASE("stand-ins: of an emoji made of several characters the first one is drawn") {
  CHECK(drawn("a👍🏽b") == drawn("a👍b"));
  CHECK(drawn("👨‍👩‍👧") == drawn("👨"));
  CHECK(drawn("ok ✔️ done") == "ok ✔ done");
  CHECK(drawn("🇩🇪").size() == 6);
}

TEST_CASE("stand-ins: a text that a field would change is not editable") {
  std::string space;
  std::string_view shown;
  CHECK_FALSE(editable_text("a\xFF", space, shown));
  CHECK_FALSE(editable_text("\xF0\x9F\x98", space, shown));
  CHECK_FALSE(editable_text(std::string_view("a\0b", 3), space, shown));
}

TEST_CASE("a field only shows what it would lose") {
  ImGuiFrames frames;
  std::string text("a\0b", 3);
  const std::function<void()> content = [&] {
    ui::FieldText field(text);
    ImGui::SetKeyboardFocusHere();
    ImGui::InputText("line", field.edited(), field.flags(), ui::FieldText::filter);
    field.give_back();
  };
  frames.frame(content);
  frames.frame(content);
  ui::add_typed('x');
  frames.frame(content);
  CHECK(text == std::string("a\0b", 3));
}

TEST_CASE("a field types, pastes, copies and undoes emoji") {
  ImGuiFrames frames;
  convert_clipboard();
  std::string text;
  bool lines = false;
  const std::function<void()> content = [&] {
    ui::FieldText field(text);
    ImGui::SetKeyboardFocusHere();
    const int flags = field.flags() | ImGuiInputTextFlags_AllowTabInput;
    if (lines) {
      ImGui::InputTextMultiline("lines", field.edited(), {300, 100}, flags, ui::FieldText::filter);
    } else {
      ImGui::InputText("line", field.edited(), flags, ui::FieldText::filter);
    }
    field.give_back();
  };
  const auto type = [&](std::initializer_list<unsigned> codes) {
    for (const unsigned code : codes) ui::add_typed(code);
    frames.frame(content);
    frames.frame(content);
  };
  frames.frame(content);
  frames.frame(content);
  type({'a', 0x1F600});
  CHECK(text == "a😀");
  type({0x1F680});
  CHECK(text == "a😀🚀");
  frames.press(ImGuiKey_Z, true, false, content);
  CHECK(text == "a😀");
  frames.press(ImGuiKey_Y, true, false, content);
  CHECK(text == "a😀🚀");
  frames.press(ImGuiKey_A, true, false, content);
  frames.press(ImGuiKey_C, true, false, content);
  CHECK(frames.clipboard == "a😀🚀");
  frames.clipboard = "x\ty\r\n👍🏽\n";
  frames.press(ImGuiKey_V, true, false, content);
  CHECK(text == "x y 👍🏽");
  frames.clipboard = "\xFF";
  frames.press(ImGuiKey_V, true, false, content);
  CHECK(text == "x y 👍🏽\uFFFD");
  lines = true;
  text.clear();
  ImGui::ClearActiveID();
  frames.frame(content);
  frames.frame(content);
  frames.clipboard = "x\ty\n👍🏽\n";
  frames.press(ImGuiKey_V, true, false, content);
  CHECK(text == "x\ty\n👍🏽\n");
  // What other parts copy goes as it is, even if it looks like a stand-in.
  copy_text("\uE000");
  CHECK(frames.clipboard == "\uE000");
}
