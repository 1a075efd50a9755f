// Fonts of the system by the characters they have, through fontconfig, which is opened at run time.
#pragma once

#include <cstdint>
#include <string>

namespace infer::gui {

struct FontFile {
  std::string path;
  int index = 0;  ///< in a collection of fonts
  bool operator==(const FontFile&) const = default;
};

enum class FontLook { outlines, colours };

/// One thread.
class SystemFonts {
 public:
  SystemFonts() = default;
  ~SystemFonts();
  SystemFonts(const SystemFonts&) = delete;
  SystemFonts& operator=(const SystemFonts&) = delete;

  /// The font that a system's text would use for this character: one with outlines that can be
  /// drawn at any size, or one whose glyphs have colours. An empty path if there is none. The first
  /// call for either takes some milliseconds.
  FontFile with(uint32_t codepoint, FontLook look);

 private:
  /// FcFontSet: the fonts in the order of preference.
  struct Sorted {
    bool opened = false;
    void* fonts = nullptr;
  };
  static void* sorted(FontLook look);

  Sorted sorted_[2];  ///< by FontLook
};

}  // namespace infer::gui
