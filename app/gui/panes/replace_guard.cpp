#include "gui/panes/replace_guard.h"

#include <filesystem>
#include <system_error>

#include "gui/ui/ui.h"

namespace infer::gui {

bool ReplaceGuard::may_write(const std::string& path) {
  std::error_code unknown;
  const bool may = asks(path) || !std::filesystem::exists(path, unknown);
  asked_ = may ? std::string() : path;
  return may;
}

void ReplaceGuard::draw(const std::string& path) const {
  if (asks(path)) ui::notice(ui::Tone::danger, "There is a file of this name.", "exists");
}

}  // namespace infer::gui
