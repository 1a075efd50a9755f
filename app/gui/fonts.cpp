#include "gui/fonts.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gui/font_data.h"
#include "gui/system_fonts.h"

namespace infer::gui {
namespace {

/// What the window itself and most texts need: Latin letters, punctuation, currencies, arrows,
/// signs of mathematics, boxes. The built-in fonts have all of it. Rasterised at the start.
constexpr ImWchar kFirst[] = {0x0020, 0x007E, 0x00A0, 0x017F, 0x200B, 0x2027, 0x2030,
                              0x205E, 0x20AC, 0x20AC, 0x2122, 0x2122, 0x2190, 0x2199,
                              0x2200, 0x2265, 0x2500, 0x257F, 0x25A0, 0x25CF, 0x2605,
                              0x2606, 0x2713, 0x2717, 0xFFFD, 0xFFFD, 0};
/// Further letters that the built-in fonts have: taken by blocks when first seen.
constexpr ImWchar kBuiltIn[][2] = {
    {0x0180, 0x024F}, {0x0250, 0x02FF}, {0x0300, 0x036F}, {0x0370, 0x03FF}, {0x0400, 0x04FF},
    {0x0500, 0x052F}, {0x0530, 0x058F}, {0x0590, 0x05FF}, {0x0600, 0x06FF}, {0x10A0, 0x10FF},
    {0x1E00, 0x1EFF}, {0x1F00, 0x1FFF}, {0x2000, 0x206F}, {0x2070, 0x209F}, {0x20A0, 0x20CF},
    {0x2100, 0x214F}, {0x2150, 0x218F}, {0x2190, 0x21FF}, {0x2200, 0x22FF}, {0x2300, 0x23FF},
    {0x2460, 0x24FF}, {0x2580, 0x259F}, {0x25A0, 0x25FF}, {0x2600, 0x26FF}, {0x2700, 0x27BF},
    {0x27C0, 0x27EF}, {0x27F0, 0x27FF}, {0x2800, 0x28FF}, {0x2A00, 0x2AFF}, {0xFB00, 0xFB06},
    {0xFB13, 0xFB4F}, {0xFB50, 0xFDFF}, {0xFE70, 0xFEFF}};

/// The largest texture that any OpenGL 3 has; letters that would exceed it are left out.
constexpr size_t kMostExtra = 6000;
constexpr uint32_t kPlane = 0x10000;

}  // namespace

struct Fonts::SystemFonts {
  gui::SystemFonts fonts;
};

struct Fonts::Extra {
  FontFile file;                ///< empty: the built-in fonts
  std::vector<ImWchar> ranges;  ///< pairs of first and last, then 0
  size_t characters = 0;
  std::vector<unsigned char> bytes;  ///< of the file; empty if it cannot be used
};

Fonts::Fonts() : known_(kPlane / 64), system_(std::make_unique<SystemFonts>()) {
  for (const ImWchar* range = kFirst; *range != 0; range += 2) {
    for (uint32_t c = range[0]; c <= range[1]; ++c) known_[c / 64] |= uint64_t{1} << (c % 64);
  }
  for (uint32_t c = 0; c < 32; ++c) known_[0] |= uint64_t{1} << c;
}

Fonts::~Fonts() = default;

bool Fonts::incomplete() const { return !wanted_.empty(); }

void Fonts::need(uint32_t codepoint) {
  if (codepoint >= kPlane) return;  // ImGui's characters have 16 bits
  uint64_t& word = known_[codepoint / 64];
  const uint64_t bit = uint64_t{1} << (codepoint % 64);
  if ((word & bit) != 0) return;
  word |= bit;
  wanted_.push_back(static_cast<uint16_t>(codepoint));
}

void Fonts::need(const std::string& text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    if (static_cast<unsigned char>(*at) < 0x80) {
      ++at;
      continue;
    }
    unsigned codepoint = 0;
    // Reads a sign that is cut off at the end as U+FFFD, and always goes on.
    const auto lead = static_cast<unsigned char>(*at);
    const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length == 1 || end - at < length) {
      ++at;
      continue;
    }
    codepoint = lead & (0xFFU >> (length + 1));
    for (int i = 1; i < length; ++i)
      codepoint = codepoint << 6 | (static_cast<unsigned char>(at[i]) & 63U);
    need(codepoint);
    at += length;
  }
}

/// Sorts what was seen into the fonts that have it.
void Fonts::find_wanted() {
  std::ranges::sort(wanted_);
  const auto add = [&](const FontFile& file, ImWchar first, ImWchar last) {
    auto extra = std::ranges::find_if(extras_, [&](const Extra& e) { return e.file == file; });
    if (extra == extras_.end())
      extra = extras_.insert(
          extras_.end(),
          Extra{file, {0}, 0, file.path.empty() ? std::vector<unsigned char>() : read_font(file)});
    extra->ranges.back() = first;
    extra->ranges.insert(extra->ranges.end(), {last, 0});
    extra->characters += static_cast<size_t>(last - first) + 1;
  };
  size_t taken = 0;
  for (const Extra& extra : extras_) taken += extra.characters;
  for (const uint16_t c : wanted_) {
    if (taken > kMostExtra) break;
    const auto* block = std::ranges::find_if(
        kBuiltIn, [c](const ImWchar(&range)[2]) { return range[0] <= c && c <= range[1]; });
    if (block != std::end(kBuiltIn)) {
      add({}, (*block)[0], (*block)[1]);
      for (uint32_t i = (*block)[0]; i <= (*block)[1]; ++i) {
        known_[i / 64] |= uint64_t{1} << (i % 64);
      }
      taken += static_cast<size_t>((*block)[1] - (*block)[0]) + 1;
      continue;
    }
    const FontFile file = system_->fonts.with(c);
    if (file.path.empty()) continue;  // drawn as the sign for unknown ones
    add(file, c, c);
    ++taken;
  }
  // Blocks may have been named by several of their characters.
  for (Extra& extra : extras_) {
    std::vector<std::pair<ImWchar, ImWchar>> pairs;
    for (size_t i = 0; i + 1 < extra.ranges.size(); i += 2) {
      pairs.emplace_back(extra.ranges[i], extra.ranges[i + 1]);
    }
    std::ranges::sort(pairs);
    pairs.erase(std::ranges::unique(pairs).begin(), pairs.end());
    extra.ranges.clear();
    for (const auto& [first, last] : pairs) {
      if (!extra.ranges.empty() && extra.ranges.back() + 1 == first) {
        extra.ranges.back() = last;
      } else {
        extra.ranges.insert(extra.ranges.end(), {first, last});
      }
    }
    extra.ranges.push_back(0);
  }
  wanted_.clear();
}

void Fonts::build(float pixels) {
  find_wanted();
  pixels_ = pixels;
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  atlas.TexDesiredWidth = 2048;
  constexpr float kShares[] = {1, 1, 0.94f};  // of the height
  for (size_t f = 0; f < std::size(kShares); ++f) {
    const std::span<const unsigned char> font = built_in_font(static_cast<FontKind>(f));
    ImFontConfig config;
    config.FontDataOwnedByAtlas = false;
    config.OversampleH = pixels > 20 ? 1 : 2;
    config.PixelSnapH = false;
    const float height = std::round(pixels * kShares[f]);
    const auto add = [&](const ImWchar* ranges) {
      return atlas.AddFontFromMemoryTTF(const_cast<unsigned char*>(font.data()),
                                        static_cast<int>(font.size()), height, &config, ranges);
    };
    fonts_[f] = add(kFirst);
    config.MergeMode = true;
    config.OversampleH = 1;
    for (const Extra& extra : extras_) {
      if (extra.file.path.empty()) {
        add(extra.ranges.data());
        continue;
      }
      if (extra.bytes.empty()) continue;  // the file has gone since
      config.FontNo = extra.file.index;
      atlas.AddFontFromMemoryTTF(const_cast<unsigned char*>(extra.bytes.data()),
                                 static_cast<int>(extra.bytes.size()), height, &config,
                                 extra.ranges.data());
      config.FontNo = 0;
    }
  }
  atlas.Build();
}

}  // namespace infer::gui
