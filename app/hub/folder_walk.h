// Files below folders that may be anything: a whole disk, links in circles, what others change.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/local_models.h"

namespace infer::hub {

class FolderWalk {
 public:
  /// Notes in `skipped` what cannot be read. `go_on`: see ScanOptions.
  FolderWalk(std::vector<SkippedPath>& skipped, std::function<bool()> go_on);

  /// Calls `see` for every file below a folder, also for links to files. Each folder is seen once,
  /// by its own name if it has one here, otherwise by that of a link. A folder that is not there
  /// has no files.
  void visit(const std::filesystem::path& folder,
             const std::function<void(const std::filesystem::path&)>& see);
  void skip(const std::filesystem::path& path, std::string reason);
  /// Whether go_on ended nothing.
  bool complete() const { return complete_; }

 private:
  std::vector<SkippedPath>& skipped_;
  const std::function<bool()> go_on_;
  bool complete_ = true;
};

}  // namespace infer::hub
