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
/// Until then letters come with those around them, which are likely to follow: one rasterisation
/// instead of many.
constexpr size_t kMostNeighbours = kMostExtra / 2;
constexpr uint32_t kPlane = 0x10000;
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

Fonts::Fonts()
    : Fonts([system = std::make_shared<SystemFonts>()](uint32_t codepoint) {
        return system->with(codepoint);
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
  if (codepoint >= kPlane) return;  // ImGui's characters have 16 bits
  uint64_t& word = known_[codepoint / 64];
  const uint64_t bit = uint64_t{1} << (codepoint % 64);
  if ((word & bit) != 0) return;
  word |= bit;
  wanted_.push_back(static_cast<uint16_t>(codepoint));
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
    if (!is_known(c) && finder_(c) == file) add(file, c, c);
  }
}

/// Sorts what was seen into the fonts that have it. Whether there are letters to rasterise.
bool Fonts::find_wanted() {
  const size_t before = taken_;
  std::ranges::sort(wanted_);
  for (const uint16_t c : wanted_) {
    if (taken_ > kMostExtra) break;
    const auto* block = std::ranges::find_if(
        kBuiltIn, [c](const ImWchar(&range)[2]) { return range[0] <= c && c <= range[1]; });
    const bool built_in = block != std::end(kBuiltIn);
    const FontFile file = built_in ? FontFile{} : finder_(c);
    if (!built_in && file.path.empty()) continue;  // drawn as the sign for unknown ones
    // The block may have come with another of its letters.
    const auto have = std::ranges::find_if(extras_, [&](const Extra& e) { return e.file == file; });
    if (have != extras_.end() && have->has(c)) continue;
    if (built_in) {
      add({}, (*block)[0], (*block)[1]);
      continue;
    }
    add(file, c, c);
    add_neighbours(file, c);
  }
  wanted_.clear();
  if (taken_ != before) join_ranges();
  return taken_ != before;
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
  find_wanted();
  ++builds_;
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
      // The other two share the glyphs of the first. Without bytes the file has gone since.
      if (extra.bytes.empty() || f > 0) continue;
      config.FontNo = extra.file.index;
      atlas.AddFontFromMemoryTTF(const_cast<unsigned char*>(extra.bytes.data()),
                                 static_cast<int>(extra.bytes.size()), height, &config,
                                 extra.ranges.data());
      config.FontNo = 0;
    }
  }
  atlas.Build();
  share_extras();
  interval_ = std::max(kInterval, (seconds_now() - start) / kMostShare);
}

/// The system's letters are rasterised once for all three fonts: they are thousands.
void Fonts::share_extras() {
  const ImFont& from = *fonts_[0];
  for (ImFont* to : {fonts_[1], fonts_[2]}) {
    const float down = to->Ascent - from.Ascent;
    bool added = false;
    for (const Extra& extra : extras_) {
      if (extra.bytes.empty()) continue;
      for (size_t i = 0; i + 1 < extra.ranges.size(); i += 2) {
        for (uint32_t c = extra.ranges[i]; c <= extra.ranges[i + 1]; ++c) {
          const ImFontGlyph* const glyph = from.FindGlyphNoFallback(static_cast<ImWchar>(c));
          if (glyph == nullptr) continue;
          const ImFontGlyph g = *glyph;
          to->AddGlyph(nullptr, static_cast<ImWchar>(c), g.X0, g.Y0 + down, g.X1, g.Y1 + down, g.U0,
                       g.V0, g.U1, g.V1, g.AdvanceX);
          added = true;
        }
      }
    }
    if (added) to->BuildLookupTable();
  }
}

}  // namespace infer::gui
