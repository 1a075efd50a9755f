#include "gui/text/stand_ins.h"

#include <utf8proc.h>

#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr char32_t kFirst = 0xE000, kLast = 0xF8FF;  ///< the private use area
constexpr size_t kForEditing = 1000;                 ///< the last ones
constexpr size_t kMost = kLast - kFirst + 1;
constexpr char32_t kLastCode = 0x10FFFF;

StandIns& all() {
  static StandIns table;
  return table;
}

bool is_private(char32_t code) { return code >= kFirst && code <= kLast; }

unsigned char byte_at(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Whether a character of the private use area begins here.
bool begins_private(std::string_view text, size_t at) {
  const unsigned char lead = byte_at(text, at);
  return lead == 0xEE || (lead == 0xEF && byte_at(text, at + 1) < 0xA4);
}

/// Whether a character begins here that is drawn as another one, or not at all.
bool begins_other(std::string_view text, size_t at) {
  const unsigned char lead = byte_at(text, at);
  if (lead < 0xE2) return false;
  const unsigned char second = byte_at(text, at + 1);
  const bool joiner = lead == 0xE2 && second == 0x80 && byte_at(text, at + 2) == 0x8D;
  const bool selector = lead == 0xEF && second == 0xB8 && byte_at(text, at + 2) < 0x90;
  return lead >= 0xF0 || joiner || selector || begins_private(text, at);
}

bool is_drawn(char32_t code) { return code != 0x200D && !(code >= 0xFE00 && code <= 0xFE0F); }

/// Of valid UTF-8; its length is 0 where it is not.
Char valid_char_at(std::string_view text, size_t at) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (length <= 0) return {0, 0};
  return {static_cast<char32_t>(code), static_cast<size_t>(length)};
}

}  // namespace

char32_t StandIns::of(char32_t code, StandInUse use) {
  if (code <= 0xFFFF && !is_private(code)) return code;
  if (code > kLastCode) return kUnknownCharacter;
  if (const auto found = stand_ins_.find(code); found != stand_ins_.end()) return found->second;
  const size_t room = use == StandInUse::editing ? kMost : kMost - kForEditing;
  if (codes_.size() >= room) return kUnknownCharacter;
  const auto given = static_cast<char32_t>(kFirst + codes_.size());
  codes_.push_back(code);
  stand_ins_.emplace(code, given);
  return given;
}

char32_t StandIns::code_of(char32_t character) const {
  if (!is_private(character) || character - kFirst >= codes_.size()) return character;
  return codes_[character - kFirst];
}

char32_t stand_in(char32_t code, StandInUse use) { return all().of(code, use); }
char32_t stood_for(char32_t character) { return all().code_of(character); }

std::string_view drawn_text(std::string_view text, std::string& space) {
  size_t at = 0;
  while (at < text.size() && !begins_other(text, at)) ++at;
  if (at == text.size()) return text;
  // The cluster that it belongs to begins before.
  at = cluster_begin(text, at);
  space.assign(text.substr(0, at));
  while (at < text.size()) {
    const size_t end = cluster_end(text, at, text.size());
    const Char first = char_at(text, at);
    for (size_t i = at; i < end;) {
      const Char c = char_at(text, i);
      const bool is_part = i > at && is_emoji_part(first.code, c.code);
      if (is_drawn(c.code) && !is_part) append_utf8(space, stand_in(c.code));
      i += c.length;
    }
    at = end;
  }
  return space;
}

bool editable_text(std::string_view text, std::string& space, std::string_view& edited) {
  bool same = true;
  for (size_t at = 0; at < text.size();) {
    if (byte_at(text, at) - 1U < 0x7F) {  // ASCII
      if (!same) space += text[at];
      ++at;
      continue;
    }
    const Char c = valid_char_at(text, at);
    if (c.length == 0 || c.code == 0) return false;
    const char32_t shown = stand_in(c.code, StandInUse::editing);
    if (shown == kUnknownCharacter && c.code != kUnknownCharacter) return false;
    if (same && shown != c.code) {
      space.assign(text.substr(0, at));
      same = false;
    }
    if (!same) append_utf8(space, shown);
    at += c.length;
  }
  edited = same ? text : std::string_view(space);
  return true;
}

bool has_stand_ins(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (begins_private(text, at)) return true;
  }
  return false;
}

std::string without_stand_ins(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (!begins_private(text, at)) {
      out += text[at++];
      continue;
    }
    const Char c = char_at(text, at);
    append_utf8(out, stood_for(c.code));
    at += c.length;
  }
  return out;
}

}  // namespace infer::gui
