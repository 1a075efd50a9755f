// The tables of the file, and the way from older ones to these.
#pragma once

#include <span>

#include "conversations/sqlite.h"

namespace infer::conversations {

/// PRAGMA application_id of files of conversations: "infr".
inline constexpr int64_t kApplicationId = 0x696E6672;

/// Step i brings a file from version i to version i + 1.
std::span<const char* const> migration_steps();

/// Changes nothing. Errors: unsupported if the file is newer than version `newest`, or belongs to
/// another program.
Status check_version(Database& database, size_t newest);

/// Brings the file to the newest version, all steps or none. Errors: those of check_version();
/// bad_file if its tables are not those of its version.
Status migrate(Database& database, std::span<const char* const> steps);

/// Whether the file has the tables, indexes and triggers of the newest version, and no other
/// triggers or views. Errors: bad_file.
Status check_schema(Database& database);

}  // namespace infer::conversations
