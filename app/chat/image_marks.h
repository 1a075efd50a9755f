// How the text of a message names the files of images: as images of Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace infer::chat {

/// Whether a path ends as the files of images do that can be read.
bool names_image(std::string_view path);

/// The text that names a file. `path` is absolute.
std::string image_mark(const std::string& path);

/// An image of Markdown whose address is the file of an image: an absolute path, "~/…" or
/// "file:///…".
struct ImageMark {
  size_t begin = 0, end = 0;  ///< bytes of the text that it takes
  std::string path;           ///< absolute
};
/// Those of a text, in their order.
std::vector<ImageMark> image_marks(const std::string& text);

}  // namespace infer::chat
