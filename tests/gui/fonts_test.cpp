// Letters of the system's fonts: which come together, and how often the fonts are made anew.
#include "gui/fonts.h"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "gui/font_data.h"
#include "gui/text/stand_ins.h"
#include "tests/gui/imgui_frame.h"
#include "tests/support.h"

using namespace infer::gui;
using infer::test::ImGuiFrames;

namespace {

/// A system with one font, which has the letters from `first` to `last`.
struct OneFont {
  OneFont(uint32_t first, uint32_t last) : first(first), last(last) {
    const auto bytes = built_in_font(FontKind::text);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  Fonts::Finder finder() {
    return [this](uint32_t c, FontLook look) {
      const bool has = look == FontLook::outlines && c >= first && c <= last;
      return has ? FontFile{path, 0} : FontFile{};
    };
  }

  infer::test::TempDir folder;
  std::string path = folder.path("system.ttf");
  uint32_t first, last;
};

/// Frames of a sixtieth of a second. In each, the next letters are drawn.
int builds_while(Fonts& fonts, const std::vector<uint32_t>& letters, size_t letters_a_frame) {
  const int before = fonts.builds();
  double now = 100;
  for (size_t at = 0; at < letters.size() || std::isfinite(fonts.seconds_until_due(now));) {
    for (size_t i = 0; i < letters_a_frame && at < letters.size(); ++i) fonts.need(letters[at++]);
    if (fonts.finds_more(now)) fonts.build(16);
    now += 1.0 / 60;
    REQUIRE(now < 200);
  }
  return fonts.builds() - before;
}

}  // namespace

TEST_CASE("fonts: an answer in Chinese of 2,000 characters makes them anew a few times") {
  ImGuiFrames frames;
  OneFont system(0x4E00, 0x9FFF);
  Fonts fonts(system.finder());
  fonts.build(16);
  std::vector<uint32_t> letters;
  for (uint32_t i = 0; i < 2000; ++i) letters.push_back(0x4E00 + i * 37 % 20'000);
  // Nine seconds of them.
  const int builds = builds_while(fonts, letters, 4);
  CHECK(builds > 0);
  CHECK(builds <= 20);
}

TEST_CASE("fonts: letters beside those that are seen come with them") {
  ImGuiFrames frames;
  OneFont system(0x0E80, 0x0EFF);
  Fonts fonts(system.finder());
  fonts.build(16);
  fonts.need(std::string_view("ກ"));
  CHECK(fonts.finds_more(100));
  fonts.build(16);
  fonts.need(std::string_view("ຂຄງຈຊຍດຕຖທ"));
  CHECK(std::isinf(fonts.seconds_until_due(200)));
  for (const FontKind kind : {FontKind::text, FontKind::bold, FontKind::code}) {
    CHECK(fonts.font(kind)->FindGlyphNoFallback(0x0E81) != nullptr);
    CHECK(fonts.font(kind)->FindGlyphNoFallback(0x0E97) != nullptr);
  }
  // One picture for all three.
  CHECK(fonts.font(FontKind::bold)->FindGlyphNoFallback(0x0E81)->U0 ==
        fonts.font(FontKind::text)->FindGlyphNoFallback(0x0E81)->U0);
}

TEST_CASE("fonts: a letter that no font has makes nothing anew") {
  ImGuiFrames frames;
  OneFont system(1, 0);
  Fonts fonts(system.finder());
  fonts.build(16);
  fonts.need(0x4E00);
  CHECK_FALSE(fonts.finds_more(100));
  fonts.need(0x4E00);
  CHECK(std::isinf(fonts.seconds_until_due(200)));
}

TEST_CASE("fonts: they are made anew at most twice a second") {
  ImGuiFrames frames;
  OneFont system(0x4E00, 0x9FFF);
  Fonts fonts(system.finder());
  fonts.build(16);
  fonts.need(0x4E00);
  CHECK(fonts.finds_more(100));
  fonts.build(16);
  fonts.need(0x6000);
  CHECK_FALSE(fonts.finds_more(100.4));
  CHECK(fonts.seconds_until_due(100.4) > 0.05);
  CHECK(fonts.finds_more(150));
}

namespace {

const ImFontGlyph* glyph(const Fonts& fonts, FontKind kind, char32_t code) {
  return fonts.font(kind)->FindGlyphNoFallback(static_cast<ImWchar>(stand_in(code)));
}

/// The colour in the middle of a glyph, as bytes of red, green, blue and opacity.
uint32_t middle_of(const ImFontGlyph& glyph) {
  unsigned char* pixels = nullptr;
  int width = 0, height = 0;
  ImGui::GetIO().Fonts->GetTexDataAsRGBA32(&pixels, &width, &height);
  const auto x = static_cast<int>((glyph.U0 + glyph.U1) / 2 * static_cast<float>(width));
  const auto y = static_cast<int>((glyph.V0 + glyph.V1) / 2 * static_cast<float>(height));
  return reinterpret_cast<const uint32_t*>(pixels)[y * width + x];
}

bool lacks_free_type() {
  if (GlyphPictures::available()) return false;
  infer::test::skipped("emoji: FreeType (libfreetype.so.6) is not installed");
  return true;
}

constexpr FontKind kKinds[] = {FontKind::text, FontKind::bold, FontKind::code};

}  // namespace

TEST_CASE("fonts: emoji come in colours where a font has them") {
  if (lacks_free_type()) return;
  ImGuiFrames frames;
  const FontFile colours{infer::test::data_path("fonts/colours.ttf"), 0};
  Fonts fonts([&](uint32_t c, FontLook look) {
    const bool has = c == 0x1F600 || c == 0x2705;
    return has && look == FontLook::colours ? colours : FontFile{};
  });
  fonts.build(16);
  CHECK(glyph(fonts, FontKind::text, 0x1F600) == nullptr);
  fonts.need("\U0001F600 ✅ \U0001F680");
  CHECK(fonts.finds_more(100));
  for (const float pixels : {16.0f, 40.0f}) {
    fonts.build(pixels);
    for (const FontKind kind : kKinds) {
      for (const char32_t code : {0x1F600, 0x2705}) {
        const ImFontGlyph* const g = glyph(fonts, kind, code);
        REQUIRE(g != nullptr);
        CHECK(g->Colored == 1);
        CHECK(middle_of(*g) == 0xFFFF0000);  // blue, as the inner rectangle
        CHECK(g->AdvanceX == doctest::Approx(pixels * 0.86 * 1.2).epsilon(0.05));
        CHECK(g->Y1 - g->Y0 == doctest::Approx(pixels * 0.86 * 0.8).epsilon(0.1));
      }
    }
    CHECK(glyph(fonts, FontKind::text, 0x1F680) == nullptr);
  }
  fonts.need(0x1F600);
  CHECK(std::isinf(fonts.seconds_until_due(200)));
}

TEST_CASE("fonts: characters beyond 16 bits come from outlines where no font has colours") {
  if (lacks_free_type()) return;
  ImGuiFrames frames;
  OneFont system(0x1F600, 0x1F640);
  Fonts fonts(system.finder());
  fonts.build(16);
  fonts.need(0x1F600);
  CHECK(fonts.finds_more(100));
  fonts.build(16);
  for (const FontKind kind : kKinds) {
    const ImFontGlyph* const g = glyph(fonts, kind, 0x1F600);
    REQUIRE(g != nullptr);
    CHECK(g->Colored == 0);
    CHECK(g->AdvanceX > 8);
  }
}

TEST_CASE(
    "fonts: of a block that the built-in font has in part, the system is asked for the rest") {
  ImGuiFrames frames;
  std::vector<uint32_t> asked;
  OneFont system(0x2700, 0x27BF);
  Fonts fonts([&](uint32_t c, FontLook look) {
    asked.push_back(c);
    return system.finder()(c, look);
  });
  fonts.build(16);
  fonts.need("✈");  // U+2708
  CHECK(fonts.finds_more(100));
  fonts.build(16);
  CHECK(asked.empty());
  CHECK(fonts.font(FontKind::text)->FindGlyphNoFallback(0x2708) != nullptr);
  fonts.need("✨");  // U+2728
  CHECK(fonts.finds_more(200));
  CHECK(std::ranges::count(asked, 0x2728U) == 2);  // for colours, then for outlines
}

TEST_CASE("fonts: many pictures come in parts") {
  if (lacks_free_type()) return;
  ImGuiFrames frames;
  OneFont system(0x1D300, 0x1D5D3);
  Fonts fonts(system.finder());
  fonts.build(16);
  // All of them are in DejaVu, whose file stands for the system's font.
  std::vector<uint32_t> letters;
  for (uint32_t c = 0x1D300; c <= 0x1D356; ++c) letters.push_back(c);
  for (uint32_t c = 0x1D5A0; c <= 0x1D5D3; ++c) letters.push_back(c);
  const auto drawn = [&] {
    return std::ranges::count_if(
        letters, [&](uint32_t c) { return glyph(fonts, FontKind::text, c) != nullptr; });
  };
  for (const uint32_t c : letters) fonts.need(c);
  CHECK(fonts.finds_more(100));
  fonts.build(16);
  CHECK(drawn() > 0);
  CHECK(drawn() < static_cast<std::ptrdiff_t>(letters.size()));
  builds_while(fonts, letters, letters.size());
  CHECK(drawn() == static_cast<std::ptrdiff_t>(letters.size()));
}
