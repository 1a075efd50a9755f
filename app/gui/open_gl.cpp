#include "gui/open_gl.h"

#include <imgui/backends/imgui_impl_opengl3_loader.h>
#include <imgui/imgui.h>

namespace infer::gui {

void clear_screen(int width, int height, const ImVec4& colour) {
  glViewport(0, 0, width, height);
  glClearColor(colour.x, colour.y, colour.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
}

std::vector<unsigned char> read_screen(int width, int height) {
  const auto columns = static_cast<size_t>(width);
  const auto rows = static_cast<size_t>(height);
  std::vector<unsigned char> read(columns * rows * 4);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, read.data());
  std::vector<unsigned char> pixels;
  pixels.reserve(columns * rows * 3);
  for (size_t y = rows; y-- > 0;) {  // OpenGL has the lowest row first
    const unsigned char* from = read.data() + y * columns * 4;
    for (size_t x = 0; x < columns; ++x, from += 4) pixels.insert(pixels.end(), from, from + 3);
  }
  return pixels;
}

}  // namespace infer::gui
