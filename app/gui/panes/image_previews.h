// Small pictures of the images that a message names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gui/host/event_queue.h"
#include "gui/host/latest_task.h"

namespace infer::gui {

/// One thread, which draws; files are read and decoded on another one. The window's context of
/// OpenGL is current, also when this is destroyed.
class ImagePreviews {
 public:
  explicit ImagePreviews(WakeFn wake) : decoded_(std::move(wake)) {}
  ~ImagePreviews();
  ImagePreviews(const ImagePreviews&) = delete;
  ImagePreviews& operator=(const ImagePreviews&) = delete;

  /// The images of these files in a row of this height in pixels, as many as there is room for.
  /// Draws nothing for what cannot be decoded, such as WebP: its name is in the text.
  void draw(const std::vector<std::string>& paths, float height);

 private:
  struct Picture {
    unsigned texture = 0;  ///< 0: not there yet, or it cannot be shown
    float ratio = 1;       ///< of width to height
  };
  struct Decoded {
    std::string path;
    int width = 0, height = 0;  ///< 0: it cannot be shown
    std::vector<unsigned char> rgba;
  };
  static Decoded decode(const std::string& path);
  void take_decoded();

  std::map<std::string, Picture> pictures_;
  std::string decoding_;  ///< the file that is being decoded; empty: none
  EventQueue<Decoded> decoded_;
  LatestTask decoder_;  // the last member: it uses the others
};

}  // namespace infer::gui
