// The fonts of the window: those built into the program, and the system's for letters that they do
// not have.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "gui/glyph_pictures.h"
#include "gui/system_fonts.h"

struct ImFont;

namespace infer::gui {

enum class FontKind { text, bold, code };

/// Rasterised fonts of one size. One thread.
class Fonts {
 public:
  /// The system's font that has a character so; an empty path: none has it.
  using Finder = std::function<FontFile(uint32_t codepoint, FontLook look)>;
  Fonts();
  explicit Fonts(Finder finder);
  ~Fonts();
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;

  /// Builds the fonts at this height in pixels, with the letters seen so far. The texture has to be
  /// uploaded anew.
  void build(float pixels);
  /// A character that is about to be drawn, none of its stand-ins. Characters that the fonts do not
  /// have yet are looked for among the system's fonts with the next build().
  void need(uint32_t codepoint);
  void need(std::string_view text);
  /// Looks for the letters that were needed, at most twice a second. Whether build() would add
  /// some. `now`: seconds of any clock.
  bool finds_more(double now);
  /// Seconds until finds_more() has something to do; infinity: it has not.
  double seconds_until_due(double now) const;
  /// How often build() was called, for tests.
  int builds() const { return builds_; }

  ImFont* font(FontKind kind) const { return fonts_[static_cast<size_t>(kind)]; }
  float pixels() const { return pixels_; }

 private:
  struct Extra;    // a font of the system, and the characters taken from it
  struct Picture;  // a glyph that FreeType has drawn
  bool find_wanted();
  bool add_picture(uint16_t shown, FontLook look);
  void add_letter(uint16_t letter);
  void add(const FontFile& file, uint32_t first, uint32_t last);
  void add_neighbours(const FontFile& file, uint32_t codepoint);
  void join_ranges();
  void add_fonts_to_atlas();
  void share_extras();
  void place_pictures();
  bool is_known(uint32_t c) const { return (known_[c / 64] >> (c % 64) & 1) != 0; }

  ImFont* fonts_[3] = {};
  float pixels_ = 0;
  /// A bit for each character of ImGui's, stand-ins as well: present or hopeless.
  std::vector<uint64_t> known_;
  std::vector<uint16_t> wanted_;  ///< seen and not looked for yet
  Finder finder_;
  std::vector<Extra> extras_;
  GlyphPictures free_type_;
  std::vector<Picture> pictures_;
  size_t taken_ = 0;      ///< characters of extras_ and pictures_
  double looked_at_ = 0;  ///< when finds_more() looked last
  double interval_ = 0;   ///< seconds until it may again
  int builds_ = 0;
};

}  // namespace infer::gui
