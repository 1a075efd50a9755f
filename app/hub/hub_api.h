// What the hub says of a repository. Its answers are checked as those of a stranger.
#pragma once

#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/hub_files.h"

namespace infer::hub {

/// The files of the newest commit: of model files and what belongs to them the names can become
/// paths, the hashes are hashes. Other files are left out. Fails with bad_file.
Result<std::vector<HubFile>> list_files(const Connection& connection,
                                        const std::string& repository);

/// The newest commit, which must hold the file as it was listed.
Result<std::string> find_commit(const Connection& connection, const std::string& repository,
                                const HubFile& file);

/// Where a file of a commit is. A revision is "main" or a commit.
std::string file_url(const Connection& connection, const std::string& repository,
                     const std::string& revision, const std::string& path);

}  // namespace infer::hub
