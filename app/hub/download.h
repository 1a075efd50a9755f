// One file of the hub into the cache: resumed where an earlier attempt ended, checked while it
// comes, there whole and right or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/http.h"
#include "hub/hub_cache.h"

namespace infer::hub {

/// Bytes of the file's blob that are there already, whole or as a part.
int64_t bytes_present(const HubCache& cache, const HubFile& file);

/// Returns the bytes that came over the network: 0 if the blob is there. `what` is what messages
/// call the file. `progress` is told how many bytes of the file are there. Another download of the
/// same file at once is waited for. A part stays where a download ends early, except where it is
/// wrong: then it is removed. Fails with cancelled, io, not_found or bad_file.
Result<int64_t> download(const Connection& connection, const HubCache& cache, const HubFile& file,
                         const std::string& url, const std::string& what,
                         const std::function<void(int64_t)>& progress);

}  // namespace infer::hub
