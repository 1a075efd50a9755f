// What is done about a damaged file.
#pragma once

#include <string>

#include "conversations/store.h"

namespace infer::conversations {

/// Copies what can be read of the damaged file into a new one, moves the damaged one aside (to
/// "<path>.damaged-<time>", with its WAL) and puts the new one in its place. Nobody has the file
/// open. Fills in the report. If the process ends in between, or a file cannot be moved,
/// finish_recovery() completes it.
Status recover(const std::string& path, const std::string& damage, OpenReport& report);

/// Completes a recovery that did not come to its end after all was copied, and fills in the report.
/// io: it cannot be completed now, and the file must not be opened.
Status finish_recovery(const std::string& path, OpenReport& report);

}  // namespace infer::conversations
