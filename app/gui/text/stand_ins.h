// ImGui's characters have 16 bits. What they cannot hold, emoji above all, is drawn and edited
// through stand-ins: characters of the private use area (U+E000 to U+F8FF), given in the order in
// which they are needed and kept until the program ends. Nothing of them may be stored: a text
// gets them just before ImGui sees it, and loses them right after. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace infer::gui {

/// Drawn in place of a character that no stand-in is left for.
constexpr char32_t kUnknownCharacter = 0xFFFD;

/// Drawing leaves the last stand-ins to fields, in which no character may be lost.
enum class StandInUse : uint8_t { drawing, editing };

/// The table. The functions below share one.
class StandIns {
 public:
  /// As stand_in().
  char32_t of(char32_t code, StandInUse use);
  /// As stood_for().
  char32_t code_of(char32_t character) const;

 private:
  std::vector<char32_t> codes_;  ///< by stand-in
  std::unordered_map<char32_t, char32_t> stand_ins_;
};

/// The character of ImGui for `code`: itself if it has 16 bits and is not of the private use area,
/// else its stand-in; kUnknownCharacter if none is left.
char32_t stand_in(char32_t code, StandInUse use = StandInUse::drawing);
/// What a character of ImGui stands for: itself if it is no stand-in.
char32_t stood_for(char32_t character);

/// The text as ImGui draws it. It has no shaping: of an emoji made of several characters the first
/// one is left, and of characters without a picture none. `space` holds it if it is not `text`.
std::string_view drawn_text(std::string_view text, std::string& space);

/// The text for a field of ImGui, as `drawn_text` but complete. False if the field would lose some
/// of it: it is no valid UTF-8, has a byte of 0, or needs more stand-ins than there are.
bool editable_text(std::string_view text, std::string& space, std::string_view& edited);

/// The text that a field of ImGui gave back, with what the stand-ins stand for.
std::string without_stand_ins(std::string_view text);
/// Whether that would change it.
bool has_stand_ins(std::string_view text);

}  // namespace infer::gui
