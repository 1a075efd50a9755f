// The bytes of fonts: of those in the program, and of files.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gui/fonts.h"
#include "gui/system_fonts.h"

namespace infer::gui {

/// A font of the program, which has them compressed. Stays as long as the process.
std::span<const unsigned char> built_in_font(FontKind kind);

/// Whether the program's font for texts has a glyph for this character.
bool built_in_font_has(uint32_t codepoint);

/// A font file's bytes. Empty if the file cannot be read, is too large, or is no font.
std::vector<unsigned char> read_font(const FontFile& file);

}  // namespace infer::gui
