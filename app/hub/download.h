// Downloads one file of the hub into the cache. It continues where an earlier attempt ended and
// checks the hash meanwhile. The file appears only when it is complete and its hash is right.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/http.h"
#include "hub/hub_cache.h"

namespace infer::hub {

/// Bytes of the file that the cache already has, complete or not.
int64_t bytes_present(const HubCache& cache, const HubFile& file);

/// Returns the number of bytes downloaded, 0 if the file was complete. `what` names the file in
/// messages. `progress` gets the number of bytes that the cache has. If another process downloads
/// the same file, waits for it. If the download ends early, the part is kept; if its contents are
/// wrong, it is removed. Errors: cancelled, io, not_found, bad_file.
Result<int64_t> download(const Connection& connection, const HubCache& cache, const HubFile& file,
                         const std::string& url, const std::string& what,
                         const std::function<void(int64_t)>& progress);

}  // namespace infer::hub
