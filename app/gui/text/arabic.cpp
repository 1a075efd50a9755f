#include "gui/text/arabic.h"

#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

/// `forms` characters from `first` on: alone, at the end, then (4) at the begin, in the middle.
struct Letter {
  char32_t code, first;
  int forms;
};

constexpr Letter kLetters[] = {
    {0x0621, 0xFE80, 1}, {0x0622, 0xFE81, 2}, {0x0623, 0xFE83, 2}, {0x0624, 0xFE85, 2},
    {0x0625, 0xFE87, 2}, {0x0626, 0xFE89, 4}, {0x0627, 0xFE8D, 2}, {0x0628, 0xFE8F, 4},
    {0x0629, 0xFE93, 2}, {0x062A, 0xFE95, 4}, {0x062B, 0xFE99, 4}, {0x062C, 0xFE9D, 4},
    {0x062D, 0xFEA1, 4}, {0x062E, 0xFEA5, 4}, {0x062F, 0xFEA9, 2}, {0x0630, 0xFEAB, 2},
    {0x0631, 0xFEAD, 2}, {0x0632, 0xFEAF, 2}, {0x0633, 0xFEB1, 4}, {0x0634, 0xFEB5, 4},
    {0x0635, 0xFEB9, 4}, {0x0636, 0xFEBD, 4}, {0x0637, 0xFEC1, 4}, {0x0638, 0xFEC5, 4},
    {0x0639, 0xFEC9, 4}, {0x063A, 0xFECD, 4}, {0x0641, 0xFED1, 4}, {0x0642, 0xFED5, 4},
    {0x0643, 0xFED9, 4}, {0x0644, 0xFEDD, 4}, {0x0645, 0xFEE1, 4}, {0x0646, 0xFEE5, 4},
    {0x0647, 0xFEE9, 4}, {0x0648, 0xFEED, 2}, {0x0649, 0xFEEF, 2}, {0x064A, 0xFEF1, 4},
    {0x067E, 0xFB56, 4}, {0x0686, 0xFB7A, 4}, {0x0698, 0xFB8A, 2}, {0x06A9, 0xFB8E, 4},
    {0x06AF, 0xFB92, 4}, {0x06CC, 0xFBFC, 4},
};
constexpr char32_t kTatweel = 0x0640;  ///< a stroke that joins on both sides

const Letter* letter_at(char32_t code) {
  for (const Letter& letter : kLetters) {
    if (letter.code == code) return &letter;
  }
  return nullptr;
}

bool is_mark(char32_t code) {
  return (code >= 0x064B && code <= 0x065F) || code == 0x0670 || (code >= 0x06D6 && code <= 0x06ED);
}

bool joins_next(char32_t code) {
  const Letter* letter = letter_at(code);
  return code == kTatweel || (letter != nullptr && letter->forms == 4);
}

bool joins_previous(char32_t code) {
  const Letter* letter = letter_at(code);
  return code == kTatweel || (letter != nullptr && letter->forms > 1);
}

/// The letter before or behind, past its marks; 0 if there is none. Sanitised text has few marks.
char32_t previous_of(std::string_view text, size_t at) {
  while (at > 0) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    const char32_t code = char_at(text, at).code;
    if (!is_mark(code)) return code;
  }
  return 0;
}

char32_t next_of(std::string_view text, size_t at) {
  for (at += char_at(text, at).length; at < text.size();) {
    const Char c = char_at(text, at);
    if (!is_mark(c.code)) return c.code;
    at += c.length;
  }
  return 0;
}

}  // namespace

char32_t joined_form(std::string_view text, size_t at) {
  const char32_t code = char_at(text, at).code;
  if (code < 0x0621 || code > 0x06CC) return code;
  const Letter* letter = letter_at(code);
  if (letter == nullptr) return code;
  const bool after = letter->forms > 1 && joins_next(previous_of(text, at));
  const bool before = letter->forms == 4 && joins_previous(next_of(text, at));
  return letter->first + (after ? 1u : 0u) + (before ? 2u : 0u);
}

char32_t letter_of_form(char32_t form) {
  if (form < 0xFB50 || form > 0xFEFC) return form;
  for (const Letter& letter : kLetters) {
    if (form >= letter.first && form < letter.first + static_cast<char32_t>(letter.forms)) {
      return letter.code;
    }
  }
  return form;
}

}  // namespace infer::gui
