// The few functions of OpenGL that the window itself calls; ImGui draws everything else.
#pragma once

#include <vector>

struct ImVec4;

namespace infer::gui {

/// The context of a window is current for all.
void clear_screen(int width, int height, const ImVec4& colour);
/// What was drawn, 3 bytes for each pixel, the upper row first.
std::vector<unsigned char> read_screen(int width, int height);

/// A texture of a picture with 4 bytes for each pixel, the upper row first. It may be drawn
/// smaller.
unsigned make_texture(int width, int height, const std::vector<unsigned char>& pixels);
/// 0: nothing.
void free_texture(unsigned texture);

}  // namespace infer::gui
