// What is done about a damaged file.
#pragma once

#include <string>

#include "conversations/store.h"

namespace infer::conversations {

/// Copies what can be read of the damaged file into a new one, moves the damaged one aside (to
/// "<path>.damaged-<time>", with its WAL) and puts the new one in its place. Nobody has the file
/// open. Fills in the report. If the process ends in between, finish_recovery() completes it.
Status recover(const std::string& path, const std::string& damage, OpenReport& report);

/// Completes a recovery whose process ended after the damaged file was moved away.
void finish_recovery(const std::string& path);

}  // namespace infer::conversations
