// Folders and the models in them, to choose one from. Folders are read on another thread.
#pragma once

#include <string>
#include <vector>

#include "gui/host/event_queue.h"
#include "gui/host/latest_task.h"

namespace infer::gui {

class FolderBrowser {
 public:
  explicit FolderBrowser(WakeFn wake);
  ~FolderBrowser();
  FolderBrowser(const FolderBrowser&) = delete;
  FolderBrowser& operator=(const FolderBrowser&) = delete;

  /// Returns the path of a model in the frame in which it is chosen; empty otherwise.
  std::string draw();
  void poll();

 private:
  struct Entry {
    std::string name;
    bool is_folder = false;
    bool is_model = false;  ///< a GGUF file, or a folder with a config.json
    int64_t bytes = 0;
  };
  struct Listing {
    std::string folder;
    std::vector<Entry> entries;
    std::string failure;  ///< why the folder cannot be read
    bool cut = false;     ///< it has more entries than are shown
  };
  static Listing read(const std::string& folder);
  void open(const std::string& folder);

  EventQueue<Listing> read_;
  Listing shown_;
  std::string wanted_;
  std::string typed_;
  bool opened_ = false;
  LatestTask task_;  // the last member: it uses the others
};

}  // namespace infer::gui
