// What the hub says about a repository. Its answers are not trusted: all of them are checked.
#pragma once

#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/hub_files.h"

namespace infer::hub {

/// The model files of the newest commit and the files that belong to them. Their names are safe as
/// paths, and their hashes are hashes. Other files are left out. Errors: bad_file.
Result<std::vector<HubFile>> list_files(const Connection& connection,
                                        const std::string& repository);

/// The newest commit. It must hold the file as it was listed.
Result<std::string> find_commit(const Connection& connection, const std::string& repository,
                                const HubFile& file);

/// Where a file of a commit is. A revision is "main" or a commit.
std::string file_url(const Connection& connection, const std::string& repository,
                     const std::string& revision, const std::string& path);

}  // namespace infer::hub
