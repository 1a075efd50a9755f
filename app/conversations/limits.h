// What files may hold at most. Beyond these limits there is a typed error.
#pragma once

namespace infer::conversations {

/// A text of a message, or any other value in the file.
inline constexpr int kMaxTextBytes = 64 << 20;
/// The JSON text of one conversation that is imported. In memory it takes up to 20 times as much.
inline constexpr int kMaxImportedBytes = 32 << 20;
/// Levels of imported JSON.
inline constexpr int kMaxJsonDepth = 128;
inline constexpr int kMaxTitleBytes = 1'000;

}  // namespace infer::conversations
