// The folder in which Hugging Face's programs keep what they download, as huggingface_hub lays it
// out:
//   models--USER--REPO/blobs/HASH                   the files
//   models--USER--REPO/blobs/HASH.incomplete        a part of one
//   models--USER--REPO/snapshots/COMMIT/PATH        relative links to them
//   models--USER--REPO/refs/main                    the commit
//   .locks/models--USER--REPO/HASH.lock             held while a file is downloaded
// Names are those that hub_files.h allows; nothing else becomes a path.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hub/hub_files.h"
#include "infer/status.hpp"

namespace infer::hub {

/// HF_HUB_CACHE, else HF_HOME/hub, else huggingface/hub in XDG_CACHE_HOME or ~/.cache. Empty if
/// none of these is known.
std::filesystem::path hub_cache_folder();
/// HF_HOME, else huggingface in XDG_CACHE_HOME or ~/.cache; empty if none of these is known.
std::filesystem::path hub_home();

/// The folders and files of one repository.
class HubCache {
 public:
  /// hub_cache_folder() is not empty.
  explicit HubCache(const std::string& repository);

  std::filesystem::path blob(const std::string& hash) const { return blobs_ / hash; }
  std::filesystem::path lock(const std::string& hash) const { return locks_ / (hash + ".lock"); }
  std::filesystem::path snapshot(const std::string& commit) const { return snapshots_ / commit; }

  /// Makes the folders that a download writes into. Fails with io.
  Status prepare() const;
  /// Lets the file stand in the commit's snapshot. Fails with io.
  Status link(const std::string& commit, const HubFile& file) const;
  /// Notes that "main" is this commit. Fails with io.
  Status set_main(const std::string& commit) const;

  /// The path of a model that is there whole: in the commit of "main", else in another snapshot.
  std::optional<std::string> find(const ModelName& wanted) const;

 private:
  std::filesystem::path folder_, blobs_, snapshots_, locks_;
};

/// The path of a model in a snapshot's folder.
std::string path_of(const std::filesystem::path& snapshot, const Chosen& chosen);

/// The commits whose snapshots are in a repository's folder: that of "main" first, then the others,
/// the last one that was made first.
std::vector<std::string> snapshots_of(const std::filesystem::path& folder);

}  // namespace infer::hub
