#include "gui/glyph_pictures.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "platform/library.h"

namespace infer::gui {
namespace {

/// A larger picture than so many ems is a mistake of the font.
constexpr float kMostEms = 4;

struct FreeType {
  decltype(&::FT_Init_FreeType) FT_Init_FreeType = nullptr;
  decltype(&::FT_Done_FreeType) FT_Done_FreeType = nullptr;
  decltype(&::FT_New_Face) FT_New_Face = nullptr;
  decltype(&::FT_Set_Char_Size) FT_Set_Char_Size = nullptr;
  decltype(&::FT_Select_Size) FT_Select_Size = nullptr;
  decltype(&::FT_Get_Char_Index) FT_Get_Char_Index = nullptr;
  decltype(&::FT_Load_Glyph) FT_Load_Glyph = nullptr;
};

const FreeType* free_type() {
  static const FreeType* const opened = []() -> const FreeType* {
    void* library = platform::open_library({"libfreetype.so.6"});
    if (library == nullptr) return nullptr;
    static FreeType f;
    bool all = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          platform::find_function(library, name));
      all = all && function != nullptr;
    };
    find(f.FT_Init_FreeType, "FT_Init_FreeType");
    find(f.FT_Done_FreeType, "FT_Done_FreeType");
    find(f.FT_New_Face, "FT_New_Face");
    find(f.FT_Set_Char_Size, "FT_Set_Char_Size");
    find(f.FT_Select_Size, "FT_Select_Size");
    find(f.FT_Get_Char_Index, "FT_Get_Char_Index");
    find(f.FT_Load_Glyph, "FT_Load_Glyph");
    return all ? &f : nullptr;
  }();
  return opened;
}

/// Sets the size. Returns by how much what is loaded is to be scaled; 0: it cannot be.
float set_size(FT_Face face, float em) {
  const FreeType& ft = *free_type();
  if (FT_IS_SCALABLE(face)) {
    const auto height = static_cast<FT_F26Dot6>(std::lround(em * 64));
    return ft.FT_Set_Char_Size(face, 0, height, 72, 72) == 0 ? 1.0f : 0.0f;
  }
  // Pictures of a few sizes: the next larger one, or the largest.
  int best = -1;
  float best_em = 0;
  for (int i = 0; i < face->num_fixed_sizes; ++i) {
    const float has = static_cast<float>(face->available_sizes[i].y_ppem) / 64;
    const bool better = best_em < em ? has > best_em : has >= em && has < best_em;
    if (!better) continue;
    best = i;
    best_em = has;
  }
  return best >= 0 && ft.FT_Select_Size(face, best) == 0 ? em / best_em : 0.0f;
}

struct Colour {
  float red = 0, green = 0, blue = 0, opacity = 0;  ///< 0 to 255, multiplied by the opacity
};

Colour colour_at(const FT_Bitmap& bitmap, int x, int y) {
  const unsigned char* const row = bitmap.buffer + static_cast<std::ptrdiff_t>(y) * bitmap.pitch;
  if (bitmap.pixel_mode == FT_PIXEL_MODE_BGRA) {
    const unsigned char* const bgra = row + static_cast<std::ptrdiff_t>(x) * 4;
    return {static_cast<float>(bgra[2]), static_cast<float>(bgra[1]), static_cast<float>(bgra[0]),
            static_cast<float>(bgra[3])};
  }
  const auto grey = static_cast<float>(row[x]);
  return {grey, grey, grey, grey};
}

/// The mean colour of a rectangle of the bitmap.
Colour mean(const FT_Bitmap& bitmap, float left, float top, float right, float bottom) {
  Colour sum;
  const int last_x = std::min(static_cast<int>(std::ceil(right)), static_cast<int>(bitmap.width));
  const int last_y = std::min(static_cast<int>(std::ceil(bottom)), static_cast<int>(bitmap.rows));
  for (int y = static_cast<int>(top); y < last_y; ++y) {
    const auto fy = static_cast<float>(y);
    const float high = std::min(bottom, fy + 1) - std::max(top, fy);
    for (int x = static_cast<int>(left); x < last_x; ++x) {
      const auto fx = static_cast<float>(x);
      const float share = high * (std::min(right, fx + 1) - std::max(left, fx));
      const Colour c = colour_at(bitmap, x, y);
      sum.red += c.red * share;
      sum.green += c.green * share;
      sum.blue += c.blue * share;
      sum.opacity += c.opacity * share;
    }
  }
  const float area = (right - left) * (bottom - top);
  return {sum.red / area, sum.green / area, sum.blue / area, sum.opacity / area};
}

/// As ImGui's texture has it: not multiplied by the opacity.
uint32_t in_texture(const Colour& c) {
  const auto byte = [](float value) {
    return static_cast<uint32_t>(std::clamp(std::lround(value), 0L, 255L));
  };
  if (c.opacity < 0.5f) return 0;
  const float up = 255 / c.opacity;
  return byte(c.red * up) | byte(c.green * up) << 8 | byte(c.blue * up) << 16 |
         byte(c.opacity) << 24;
}

}  // namespace

bool GlyphPictures::available() { return free_type() != nullptr; }

GlyphPictures::~GlyphPictures() {
  // The faces go with it.
  if (library_ != nullptr) free_type()->FT_Done_FreeType(static_cast<FT_Library>(library_));
}

void* GlyphPictures::face_of(const FontFile& font) {
  const auto found = std::ranges::find(faces_, font, &std::pair<FontFile, void*>::first);
  if (found != faces_.end()) return found->second;
  FT_Library library = static_cast<FT_Library>(library_);
  if (library == nullptr && free_type()->FT_Init_FreeType(&library) != 0) return nullptr;
  library_ = library;
  FT_Face face = nullptr;
  if (free_type()->FT_New_Face(library, font.path.c_str(), font.index, &face) != 0) face = nullptr;
  faces_.emplace_back(font, face);
  return face;
}

std::optional<GlyphPicture> GlyphPictures::draw(const FontFile& font, char32_t code, float em) {
  if (font.path.empty() || free_type() == nullptr) return {};
  const FreeType& ft = *free_type();
  FT_Face face = static_cast<FT_Face>(face_of(font));
  if (face == nullptr) return {};
  const FT_UInt glyph = ft.FT_Get_Char_Index(face, code);
  const float scale = glyph == 0 ? 0 : set_size(face, em);
  if (scale <= 0) return {};
  const FT_Int32 flags = FT_LOAD_COLOR | FT_LOAD_RENDER | FT_LOAD_NO_HINTING;
  if (ft.FT_Load_Glyph(face, glyph, flags) != 0) return {};
  const FT_GlyphSlot slot = face->glyph;
  const FT_Bitmap& bitmap = slot->bitmap;
  GlyphPicture picture;
  picture.coloured = bitmap.pixel_mode == FT_PIXEL_MODE_BGRA;
  const auto wide = static_cast<float>(bitmap.width), tall = static_cast<float>(bitmap.rows);
  const bool usable = (picture.coloured || bitmap.pixel_mode == FT_PIXEL_MODE_GRAY) &&
                      wide * scale <= em * kMostEms && tall * scale <= em * kMostEms;
  if (!usable || bitmap.width == 0 || bitmap.rows == 0) return {};
  picture.width = std::max(1, static_cast<int>(std::lround(wide * scale)));
  picture.height = std::max(1, static_cast<int>(std::lround(tall * scale)));
  picture.left = std::round(static_cast<float>(slot->bitmap_left) * scale);
  picture.top = std::round(static_cast<float>(slot->bitmap_top) * scale);
  picture.advance = static_cast<float>(slot->advance.x) / 64 * scale;
  const float step_x = wide / static_cast<float>(picture.width);
  const float step_y = tall / static_cast<float>(picture.height);
  picture.pixels.reserve(static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height));
  for (int y = 0; y < picture.height; ++y) {
    const auto fy = static_cast<float>(y);
    for (int x = 0; x < picture.width; ++x) {
      const auto fx = static_cast<float>(x);
      picture.pixels.push_back(
          in_texture(mean(bitmap, fx * step_x, fy * step_y, (fx + 1) * step_x, (fy + 1) * step_y)));
    }
  }
  return picture;
}

}  // namespace infer::gui
