// Letters of the system's fonts: which come together, and how often the fonts are made anew.
#include "gui/fonts.h"

#include <doctest.h>

#include <cmath>
#include <fstream>

#include "gui/font_data.h"
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
    return [this](uint32_t c) { return c >= first && c <= last ? FontFile{path, 0} : FontFile{}; };
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
