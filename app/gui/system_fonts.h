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

/// One thread.
class SystemFonts {
 public:
  SystemFonts() = default;
  ~SystemFonts();
  SystemFonts(const SystemFonts&) = delete;
  SystemFonts& operator=(const SystemFonts&) = delete;

  /// The font that a system's text would use for this character, with outlines that can be drawn at
  /// any size; an empty path if there is none. The first call takes some milliseconds.
  FontFile with(uint32_t codepoint);

 private:
  void open();

  bool opened_ = false;
  void* sorted_ = nullptr;  ///< FcFontSet: the fonts in the order of preference
};

}  // namespace infer::gui
