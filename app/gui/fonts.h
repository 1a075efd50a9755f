// The fonts of the window: those built into the program, and the system's for letters that they do
// not have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct ImFont;

namespace infer::gui {

enum class FontKind { text, bold, code };

/// Rasterised fonts of one size. One thread.
class Fonts {
 public:
  Fonts();
  ~Fonts();
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;

  /// Builds the fonts at this height in pixels, with the letters seen so far. The texture has to be
  /// uploaded anew.
  void build(float pixels);
  /// A character that is about to be drawn. Characters that the fonts do not have yet are looked
  /// for among the system's fonts with the next build().
  void need(uint32_t codepoint);
  void need(const std::string& text);
  /// Whether build() would add letters.
  bool incomplete() const;

  ImFont* font(FontKind kind) const { return fonts_[static_cast<size_t>(kind)]; }
  float pixels() const { return pixels_; }

 private:
  struct SystemFonts;
  struct Extra;  // a font of the system, and the characters taken from it
  void find_wanted();

  ImFont* fonts_[3] = {};
  float pixels_ = 0;
  std::vector<uint64_t> known_;   // a bit for each character of the plane: present or hopeless
  std::vector<uint16_t> wanted_;  // seen and not looked for yet
  std::unique_ptr<SystemFonts> system_;
  std::vector<Extra> extras_;
};

}  // namespace infer::gui
