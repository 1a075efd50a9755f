// A line in the order in which it is drawn, for texts that ImGui draws: it puts characters from
// left to right as they come and knows no forms of letters.
#pragma once

#include <string>
#include <string_view>

namespace infer::gui {

/// The line with its parts from left to right, Arabic letters in the forms in which they join, and
/// brackets mirrored. Clusters stay whole. The text is valid UTF-8 without line breaks; one that
/// has no letters of right-to-left scripts comes back as it is.
std::string visual_line(std::string_view text);

}  // namespace infer::gui
