// Search in a database of conversations. Docs: docs/conversations.md, "Search".
#pragma once

#include <string_view>
#include <vector>

#include "conversations/sqlite.h"
#include "conversations/types.h"

namespace infer::conversations {

inline constexpr int64_t kUsualHits = 50;

/// As Store::search(), but for an index that is damaged.
Result<std::vector<Hit>> search_in(Database& database, std::string_view query, int64_t most);

}  // namespace infer::conversations
