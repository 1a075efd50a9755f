#include "gui/system_fonts.h"

#include <string_view>
#include <type_traits>

#include "platform/files.h"
#include "platform/library.h"

namespace infer::gui {
namespace {

// The part of fontconfig's interface that is used here, by its documentation.
struct FcFontSet {
  int count;
  int capacity;
  void** fonts;
};
constexpr int kMatchPattern = 0;
constexpr int kResultMatch = 0;

struct Fontconfig {
  void* (*FcPatternCreate)() = nullptr;
  void (*FcPatternDestroy)(void*) = nullptr;
  int (*FcPatternAddString)(void*, const char*, const unsigned char*) = nullptr;
  int (*FcPatternAddBool)(void*, const char*, int) = nullptr;
  int (*FcConfigSubstitute)(void*, void*, int) = nullptr;
  void (*FcDefaultSubstitute)(void*) = nullptr;
  FcFontSet* (*FcFontSort)(void*, void*, int, void**, int*) = nullptr;
  void (*FcFontSetDestroy)(FcFontSet*) = nullptr;
  int (*FcPatternGetString)(const void*, const char*, int, unsigned char**) = nullptr;
  int (*FcPatternGetInteger)(const void*, const char*, int, int*) = nullptr;
  int (*FcPatternGetBool)(const void*, const char*, int, int*) = nullptr;
  int (*FcPatternGetCharSet)(const void*, const char*, int, void**) = nullptr;
  int (*FcCharSetHasChar)(const void*, uint32_t) = nullptr;
};

const Fontconfig* fontconfig() {
  static const Fontconfig* const opened = []() -> const Fontconfig* {
    void* library = platform::open_library({"libfontconfig.so.1"});
    if (library == nullptr) return nullptr;
    static Fontconfig f;
    bool all = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          platform::find_function(library, name));
      all = all && function != nullptr;
    };
    find(f.FcPatternCreate, "FcPatternCreate");
    find(f.FcPatternDestroy, "FcPatternDestroy");
    find(f.FcPatternAddString, "FcPatternAddString");
    find(f.FcPatternAddBool, "FcPatternAddBool");
    find(f.FcConfigSubstitute, "FcConfigSubstitute");
    find(f.FcDefaultSubstitute, "FcDefaultSubstitute");
    find(f.FcFontSort, "FcFontSort");
    find(f.FcFontSetDestroy, "FcFontSetDestroy");
    find(f.FcPatternGetString, "FcPatternGetString");
    find(f.FcPatternGetInteger, "FcPatternGetInteger");
    find(f.FcPatternGetBool, "FcPatternGetBool");
    find(f.FcPatternGetCharSet, "FcPatternGetCharSet");
    find(f.FcCharSetHasChar, "FcCharSetHasChar");
    return all ? &f : nullptr;
  }();
  return opened;
}

}  // namespace

SystemFonts::~SystemFonts() {
  for (const Sorted& sorted : sorted_) {
    if (sorted.fonts != nullptr) {
      fontconfig()->FcFontSetDestroy(static_cast<FcFontSet*>(sorted.fonts));
    }
  }
}

void* SystemFonts::sorted(FontLook look) {
  const Fontconfig* const fc = fontconfig();
  if (fc == nullptr) return nullptr;
  void* pattern = fc->FcPatternCreate();
  const char* const family = look == FontLook::colours ? "emoji" : "sans-serif";
  fc->FcPatternAddString(pattern, "family", reinterpret_cast<const unsigned char*>(family));
  if (look == FontLook::colours) fc->FcPatternAddBool(pattern, "color", 1);
  fc->FcConfigSubstitute(nullptr, pattern, kMatchPattern);
  fc->FcDefaultSubstitute(pattern);
  int result = 0;
  // Without fonts whose characters others before them have.
  void* const fonts = fc->FcFontSort(nullptr, pattern, 1, nullptr, &result);
  fc->FcPatternDestroy(pattern);
  return fonts;
}

FontFile SystemFonts::with(uint32_t codepoint, FontLook look) {
  Sorted& sorted_fonts = sorted_[static_cast<size_t>(look)];
  if (!sorted_fonts.opened) sorted_fonts.fonts = sorted(look);
  sorted_fonts.opened = true;
  if (sorted_fonts.fonts == nullptr) return {};
  const Fontconfig& fc = *fontconfig();
  const auto& set = *static_cast<const FcFontSet*>(sorted_fonts.fonts);
  const bool wants_colours = look == FontLook::colours;
  for (int i = 0; i < set.count; ++i) {
    const void* font = set.fonts[i];
    int scalable = 0;
    const bool any_size =
        fc.FcPatternGetBool(font, "scalable", 0, &scalable) == kResultMatch && scalable != 0;
    if (!any_size && !wants_colours) continue;
    int coloured = 0;
    const bool has_colours =
        fc.FcPatternGetBool(font, "color", 0, &coloured) == kResultMatch && coloured != 0;
    if (has_colours != wants_colours) continue;
    void* characters = nullptr;
    if (fc.FcPatternGetCharSet(font, "charset", 0, &characters) != kResultMatch) continue;
    if (fc.FcCharSetHasChar(characters, codepoint) == 0) continue;
    unsigned char* path = nullptr;
    if (fc.FcPatternGetString(font, "file", 0, &path) != kResultMatch || path == nullptr) continue;
    FontFile found{reinterpret_cast<const char*>(path), 0};
    if (platform::check_readable(found.path) != 0) continue;
    const std::string_view name = found.path;
    if (!name.ends_with(".ttf") && !name.ends_with(".otf") && !name.ends_with(".ttc")) continue;
    int index = 0;
    if (fc.FcPatternGetInteger(font, "index", 0, &index) == kResultMatch) {
      found.index = index & 0xFFFF;  // above: a variation of the font
    }
    return found;
  }
  return {};
}

}  // namespace infer::gui
