// In place of the window where it is not built.
#include "gui/gui.h"

namespace infer::gui {

Status run_gui(const GuiOptions&) {
  return {StatusCode::unsupported,
          "this program was built without the window (INFER_GUI is off, or the packages that "
          "tools/setup.sh installs were missing); `infer chat` works in a terminal"};
}

}  // namespace infer::gui
