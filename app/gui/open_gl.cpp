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

unsigned make_texture(int width, int height, const std::vector<unsigned char>& pixels) {
  GLint before = 0;
  glGetIntegerv(GL_TEXTURE_BINDING_2D, &before);
  GLuint texture = 0;
  glGenTextures(1, &texture);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_LINEAR);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE,
               pixels.data());
  glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(before));
  return texture;
}

void free_texture(unsigned texture) {
  if (texture != 0) glDeleteTextures(1, &texture);
}

}  // namespace infer::gui
