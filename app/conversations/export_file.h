// Writes conversations to files.
#pragma once

#include <string>
#include <vector>

#include "conversations/store.h"

namespace infer::conversations {

/// export_json() to a file, which is complete or as it was before. No ids: all. Errors: io.
Status export_file(Store& store, const std::vector<Id>& ids, const std::string& path);
/// to_markdown() of one conversation, likewise.
Status export_markdown_file(Store& store, Id conversation, const std::string& path);

}  // namespace infer::conversations
