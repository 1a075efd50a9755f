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
  if (sorted_ != nullptr) fontconfig()->FcFontSetDestroy(static_cast<FcFontSet*>(sorted_));
}

void SystemFonts::open() {
  opened_ = true;
  const Fontconfig* const fc = fontconfig();
  if (fc == nullptr) return;
  void* pattern = fc->FcPatternCreate();
  fc->FcPatternAddString(pattern, "family", reinterpret_cast<const unsigned char*>("sans-serif"));
  fc->FcConfigSubstitute(nullptr, pattern, kMatchPattern);
  fc->FcDefaultSubstitute(pattern);
  int result = 0;
  // Without fonts whose characters others before them have.
  sorted_ = fc->FcFontSort(nullptr, pattern, 1, nullptr, &result);
  fc->FcPatternDestroy(pattern);
}

FontFile SystemFonts::with(uint32_t codepoint) {
  if (!opened_) open();
  if (sorted_ == nullptr) return {};
  const Fontconfig& fc = *fontconfig();
  const auto& set = *static_cast<const FcFontSet*>(sorted_);
  for (int i = 0; i < set.count; ++i) {
    const void* font = set.fonts[i];
    int scalable = 0;
    if (fc.FcPatternGetBool(font, "scalable", 0, &scalable) != kResultMatch || scalable == 0) {
      continue;
    }
    int coloured = 0;  // pictures, no outlines
    if (fc.FcPatternGetBool(font, "color", 0, &coloured) == kResultMatch && coloured != 0) continue;
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
