#include "gui/fonts.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "gui/font_data.h"
#include "gui/text/stand_ins.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

/// What the window itself and most texts need: Latin letters, punctuation, currencies, arrows,
/// signs of mathematics, boxes. The built-in fonts have all of it. Rasterised at the start.
constexpr ImWchar kFirst[] = {0x0020, 0x007E, 0x00A0, 0x017F, 0x200B, 0x2027, 0x2030, 0x205E,
                              0x20AC, 0x20AC, 0x2122, 0x2122, 0x2190, 0x2199, 0x2200, 0x2265,
                              0x2500, 0x257F, 0x25A0, 0x25CF, 0x2605, 0x2606, 0x2713, 0x2717,
                              0xFE00, 0xFE0F, 0xFFFD, 0xFFFD, 0};
/// Blocks of which the built-in fonts have letters: taken by blocks when first seen.
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
/// Until then letters come with those around them, which are likely to follow: one rasterisation
/// instead of many.
constexpr size_t kMostNeighbours = kMostExtra / 2;
/// A picture of an emoji takes a millisecond; what is beyond so many waits for the next time.
constexpr size_t kPicturesAtOnce = 64;
constexpr uint32_t kPlane = 0x10000;
/// Of the height of the built-in fonts: their em.
constexpr float kEm = 0.86f;
constexpr double kInterval = 0.5;
/// Of the time, at most this share goes into rasterising.
constexpr double kMostShare = 0.1;

double seconds_now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

struct Fonts::Extra {
  FontFile file;                     ///< empty: the built-in fonts
  std::vector<ImWchar> ranges;       ///< pairs of first and last, then 0
  std::vector<unsigned char> bytes;  ///< of the file; empty if it cannot be used

  bool has(uint32_t c) const {
    for (size_t i = 0; i + 1 < ranges.size(); i += 2) {
      if (ranges[i] <= c && c <= ranges[i + 1]) return true;
    }
    return false;
  }
};

struct Fonts::Picture {
  ImWchar shown = 0;  ///< the character, or its stand-in
  FontFile file;
  GlyphPicture glyph;
  int place = 0;  ///< in the atlas
};

Fonts::Fonts()
    : Fonts([system = std::make_shared<SystemFonts>()](uint32_t codepoint, FontLook look) {
        return system->with(codepoint, look);
      }) {}

Fonts::Fonts(Finder finder) : known_(kPlane / 64), finder_(std::move(finder)) {
  for (const ImWchar* range = kFirst; *range != 0; range += 2) {
    for (uint32_t c = range[0]; c <= range[1]; ++c) known_[c / 64] |= uint64_t{1} << (c % 64);
  }
  for (uint32_t c = 0; c < 32; ++c) known_[0] |= uint64_t{1} << c;
}

Fonts::~Fonts() = default;

double Fonts::seconds_until_due(double now) const {
  if (wanted_.empty()) return std::numeric_limits<double>::infinity();
  return std::max(0.0, looked_at_ + interval_ - now);
}

bool Fonts::finds_more(double now) {
  if (seconds_until_due(now) > 0) return false;
  looked_at_ = now;
  interval_ = kInterval;
  return find_wanted();
}

void Fonts::need(uint32_t codepoint) {
  const uint32_t shown = stand_in(codepoint);
  if (is_known(shown)) return;
  known_[shown / 64] |= uint64_t{1} << (shown % 64);
  wanted_.push_back(static_cast<uint16_t>(shown));
}

void Fonts::need(std::string_view text) {
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

void Fonts::add(const FontFile& file, uint32_t first, uint32_t last) {
  auto extra = std::ranges::find_if(extras_, [&](const Extra& e) { return e.file == file; });
  if (extra == extras_.end()) {
    extra = extras_.insert(
        extras_.end(),
        Extra{file, {0}, file.path.empty() ? std::vector<unsigned char>() : read_font(file)});
  }
  extra->ranges.back() = static_cast<ImWchar>(first);
  extra->ranges.insert(extra->ranges.end(), {static_cast<ImWchar>(last), 0});
  taken_ += last - first + 1;
  for (uint32_t c = first; c <= last; ++c) known_[c / 64] |= uint64_t{1} << (c % 64);
}

/// Those of the same 256 that the system takes from the same font: a script, or a part of Chinese.
void Fonts::add_neighbours(const FontFile& file, uint32_t codepoint) {
  const uint32_t first = codepoint & ~0xFFU;
  for (uint32_t c = first; c < first + 256; ++c) {
    if (taken_ >= kMostNeighbours) return;
    if (is_known(c) || is_emoji(c)) continue;
    if (finder_(c, FontLook::outlines) == file) add(file, c, c);
  }
}

/// Sorts what was seen into the fonts that have it. Whether there are letters to rasterise.
bool Fonts::find_wanted() {
  const size_t before = taken_;
  const size_t most_pictures = pictures_.size() + kPicturesAtOnce;
  std::ranges::sort(wanted_);
  auto next = wanted_.begin();
  for (; next != wanted_.end() && pictures_.size() < most_pictures; ++next) {
    if (taken_ > kMostExtra) continue;
    const uint16_t c = *next;
    const char32_t code = stood_for(c);
    if (is_emoji(code) && add_picture(c, FontLook::colours)) continue;
    const size_t so_far = taken_;
    if (code == c) {
      add_letter(c);
    } else {
      add_picture(c, FontLook::outlines);
    }
    // Where all else fails. If this does as well, the sign for unknown ones is drawn.
    if (taken_ == so_far && !is_emoji(code)) add_picture(c, FontLook::colours);
  }
  wanted_.erase(wanted_.begin(), next);
  if (taken_ != before) join_ranges();
  return taken_ != before;
}

bool Fonts::add_picture(uint16_t shown, FontLook look) {
  const char32_t code = stood_for(shown);
  FontFile file = finder_(code, look);
  std::optional<GlyphPicture> glyph = free_type_.draw(file, code, pixels_ * kEm);
  if (!glyph || glyph->coloured != (look == FontLook::colours)) return false;
  pictures_.push_back({static_cast<ImWchar>(shown), std::move(file), *std::move(glyph), 0});
  ++taken_;
  return true;
}

/// A letter whose glyph ImGui takes from a font itself.
void Fonts::add_letter(uint16_t letter) {
  const auto is_added = [&](const FontFile& file) {
    const auto have = std::ranges::find_if(extras_, [&](const Extra& e) { return e.file == file; });
    return have != extras_.end() && have->has(letter);
  };
  const auto* block = std::ranges::find_if(kBuiltIn, [letter](const ImWchar(&range)[2]) {
    return range[0] <= letter && letter <= range[1];
  });
  if (block != std::end(kBuiltIn) && built_in_font_has(letter)) {
    if (is_added({})) return;  // with another one of its block
    for (uint32_t c = (*block)[0]; c <= (*block)[1]; ++c) {
      const bool comes_along = !is_known(c) && built_in_font_has(c) && !is_emoji(c);
      if (c == letter || comes_along) add({}, c, c);
    }
    return;
  }
  const FontFile file = finder_(letter, FontLook::outlines);
  if (file.path.empty() || is_added(file)) return;
  add(file, letter, letter);
  add_neighbours(file, letter);
}

void Fonts::join_ranges() {
  for (Extra& extra : extras_) {
    std::vector<std::pair<ImWchar, ImWchar>> pairs;
    for (size_t i = 0; i + 1 < extra.ranges.size(); i += 2) {
      pairs.emplace_back(extra.ranges[i], extra.ranges[i + 1]);
    }
    std::ranges::sort(pairs);
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
}

void Fonts::build(float pixels) {
  const double start = seconds_now();
  if (pixels != std::exchange(pixels_, pixels)) {
    for (Picture& picture : pictures_) {
      const char32_t code = stood_for(picture.shown);
      picture.glyph = free_type_.draw(picture.file, code, pixels * kEm).value_or(GlyphPicture());
    }
  }
  find_wanted();
  ++builds_;
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  atlas.TexDesiredWidth = 2048;
  add_fonts_to_atlas();
  for (Picture& picture : pictures_) {
    // A pixel beside each, so that none touches its neighbour.
    picture.place = atlas.AddCustomRectRegular(picture.glyph.width + 1, picture.glyph.height + 1);
  }
  atlas.Build();
  share_extras();
  if (!pictures_.empty()) place_pictures();
  for (ImFont* font : fonts_) font->BuildLookupTable();
  interval_ = std::max(kInterval, (seconds_now() - start) / kMostShare);
}

void Fonts::add_fonts_to_atlas() {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  constexpr float kShares[] = {1, 1, 0.94f};  // of the height
  for (size_t f = 0; f < std::size(kShares); ++f) {
    const std::span<const unsigned char> font = built_in_font(static_cast<FontKind>(f));
    ImFontConfig config;
    config.FontDataOwnedByAtlas = false;
    config.OversampleH = pixels_ > 20 ? 1 : 2;
    config.PixelSnapH = false;
    const float height = std::round(pixels_ * kShares[f]);
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
      // The other two share the glyphs of the first. Without bytes the file has gone since.
      if (extra.bytes.empty() || f > 0) continue;
      config.FontNo = extra.file.index;
      atlas.AddFontFromMemoryTTF(const_cast<unsigned char*>(extra.bytes.data()),
                                 static_cast<int>(extra.bytes.size()), height, &config,
                                 extra.ranges.data());
      config.FontNo = 0;
    }
  }
}

/// The system's letters are rasterised once for all three fonts: they are thousands.
void Fonts::share_extras() {
  const ImFont& from = *fonts_[0];
  for (ImFont* to : {fonts_[1], fonts_[2]}) {
    const float down = to->Ascent - from.Ascent;
    for (const Extra& extra : extras_) {
      if (extra.bytes.empty()) continue;
      for (size_t i = 0; i + 1 < extra.ranges.size(); i += 2) {
        for (uint32_t c = extra.ranges[i]; c <= extra.ranges[i + 1]; ++c) {
          const ImFontGlyph* const glyph = from.FindGlyphNoFallback(static_cast<ImWchar>(c));
          if (glyph == nullptr) continue;
          const ImFontGlyph g = *glyph;
          to->AddGlyph(nullptr, static_cast<ImWchar>(c), g.X0, g.Y0 + down, g.X1, g.Y1 + down, g.U0,
                       g.V0, g.U1, g.V1, g.AdvanceX);
        }
      }
    }
  }
}

/// Copies the pictures into the texture and makes them glyphs of all three fonts.
void Fonts::place_pictures() {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  unsigned char* bytes = nullptr;
  int width = 0, height = 0;
  atlas.GetTexDataAsRGBA32(&bytes, &width, &height);
  atlas.TexPixelsUseColors = true;
  auto* const pixels = reinterpret_cast<uint32_t*>(bytes);
  const auto x_share = [&](int x) { return static_cast<float>(x) / static_cast<float>(width); };
  const auto y_share = [&](int y) { return static_cast<float>(y) / static_cast<float>(height); };
  for (const Picture& picture : pictures_) {
    const GlyphPicture& g = picture.glyph;
    const ImFontAtlasCustomRect& place = *atlas.GetCustomRectByIndex(picture.place);
    if (g.pixels.empty() || !place.IsPacked()) continue;
    const int x = place.X, y = place.Y;
    for (int row = 0; row < g.height; ++row) {
      std::copy_n(g.pixels.data() + static_cast<ptrdiff_t>(row) * g.width, g.width,
                  pixels + static_cast<ptrdiff_t>(y + row) * width + x);
    }
    for (ImFont* font : fonts_) {
      const float top = font->Ascent - g.top;
      font->AddGlyph(nullptr, picture.shown, g.left, top, g.left + static_cast<float>(g.width),
                     top + static_cast<float>(g.height), x_share(x), y_share(y),
                     x_share(x + g.width), y_share(y + g.height), g.advance);
      font->Glyphs.back().Colored = g.coloured ? 1U : 0U;
    }
  }
}

}  // namespace infer::gui
