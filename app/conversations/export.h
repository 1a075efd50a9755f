// Writes conversations as text.
//
// The project's own format is JSON. It keeps everything but ids, and what is in the trash:
// importing a file and exporting again gives the same bytes. docs/conversations.md describes it.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "conversations/store.h"

namespace infer::conversations {

inline constexpr std::string_view kFormatName = "infer-conversations";
inline constexpr int kFormatVersion = 1;

/// Conversations with these ids; none: all that are not in the trash, the latest last, and the
/// presets. One conversation is in memory at a time.
Status export_json(Store& store, const std::vector<Id>& ids, std::ostream& out);

/// The messages that are shown, as Markdown.
std::string to_markdown(const Tree& tree);

}  // namespace infer::conversations
