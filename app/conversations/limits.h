// What files may hold at most. Beyond these limits there is a typed error.
#pragma once

#include <cstdint>

namespace infer::conversations {

/// A text of a message, or any other value in the file.
inline constexpr int kMaxTextBytes = 64 << 20;
/// The JSON text that is imported at a time: a message of our own format, or a conversation of
/// another one. In memory it takes up to 20 times as much.
inline constexpr int kMaxImportedBytes = 32 << 20;
/// The JSON text of one conversation of our own format.
inline constexpr int64_t kMaxConversationBytes = int64_t{1} << 30;
/// Levels of imported JSON.
inline constexpr int kMaxJsonDepth = 128;
inline constexpr int kMaxTitleBytes = 1'000;

}  // namespace infer::conversations
