// GLFW, opened at run time: the program starts on machines without it. Its functions are defined in
// glfw_library.cpp and forward to the library; they may be called once it is open.
#pragma once

#include "infer/status.hpp"

namespace infer::gui {

/// Opens the library, once. unsupported if there is none: the message says which package brings it.
Status open_glfw();

}  // namespace infer::gui
