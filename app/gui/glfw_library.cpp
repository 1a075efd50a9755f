#include "gui/glfw_library.h"

#include <GLFW/glfw3.h>

#include <string>

#include "platform/library.h"

namespace {

#define GLFW_FUNCTION(result, name, parameters, arguments) result(*g_##name) parameters = nullptr;
#include "gui/glfw_functions.def"
#undef GLFW_FUNCTION

}  // namespace

extern "C" {
#define GLFW_FUNCTION(result, name, parameters, arguments) \
  result name parameters { return g_##name arguments; }
#include "gui/glfw_functions.def"
#undef GLFW_FUNCTION
}

namespace infer::gui {
namespace {

Status open_library() {
  // Distributions name the library after what it draws on.
  void* const library =
      platform::open_library({"libglfw.so.3", "libglfw.so", "libglfw-wayland.so.3"});
  if (library == nullptr) {
    return {StatusCode::unsupported,
            "the window needs the library GLFW (libglfw.so.3), which is not installed: install the "
            "package libglfw3 (Debian, Ubuntu), glfw (Fedora, Arch) or glfw3 (openSUSE)"};
  }
  std::string missing;
#define GLFW_FUNCTION(result, name, parameters, arguments)                                    \
  g_##name = reinterpret_cast<result(*) parameters>(platform::find_function(library, #name)); \
  if (g_##name == nullptr) missing = #name;
#include "gui/glfw_functions.def"
#undef GLFW_FUNCTION
  if (missing.empty()) return {};
  return {StatusCode::unsupported,
          "the installed GLFW has no function " + missing + ": the window needs GLFW 3.3 or newer"};
}

}  // namespace

Status open_glfw() {
  static const Status opened = open_library();
  return opened;
}

}  // namespace infer::gui
