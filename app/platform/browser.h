// The user's web browser.
#pragma once

#include <string>

namespace infer::platform {

/// Shows an address in the user's browser, by xdg-open. Returns at once. False if there is no such
/// program. The address goes to no shell.
bool open_in_browser(const std::string& address);

}  // namespace infer::platform
