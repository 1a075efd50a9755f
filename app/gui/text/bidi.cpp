#include "gui/text/bidi.h"

#include <utf8proc.h>

#include <algorithm>

#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

enum class Kind : uint8_t { left, right, number, neutral };

Kind kind_of(char32_t code) {
  if (code < 0x80) {
    if ((code | 32) >= 'a' && (code | 32) <= 'z') return Kind::left;
    return code >= '0' && code <= '9' ? Kind::number : Kind::neutral;
  }
  switch (utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->bidi_class) {
    case UTF8PROC_BIDI_CLASS_L: return Kind::left;
    case UTF8PROC_BIDI_CLASS_R:
    case UTF8PROC_BIDI_CLASS_AL: return Kind::right;
    case UTF8PROC_BIDI_CLASS_EN:
    case UTF8PROC_BIDI_CLASS_AN: return Kind::number;
    default: return Kind::neutral;
  }
}

struct Piece {
  uint32_t begin, end;
  Kind kind;
  uint8_t level = 0;
};

/// Pieces of one kind. A separator between two digits belongs to the number (rule W4).
std::vector<Piece> pieces_of(std::string_view text, size_t begin, size_t end) {
  std::vector<Piece> pieces;
  for (size_t at = begin; at < end;) {
    const size_t next = cluster_end(text, at, end);
    Kind kind = kind_of(char_at(text, at).code);
    const char c = text[at];
    const bool separates = c == '.' || c == ',' || c == ':' || c == '/' || c == '-' || c == '%';
    if (separates && !pieces.empty() && pieces.back().kind == Kind::number &&
        (c == '%' || (next < end && kind_of(char_at(text, next).code) == Kind::number))) {
      kind = Kind::number;
    }
    if (!pieces.empty() && pieces.back().kind == kind) {
      pieces.back().end = static_cast<uint32_t>(next);
    } else {
      pieces.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(next), kind});
    }
    at = next;
  }
  return pieces;
}

/// Levels: even from left to right, odd from right to left.
void resolve(std::vector<Piece>& pieces, bool paragraph_right_to_left) {
  const Kind base = paragraph_right_to_left ? Kind::right : Kind::left;
  const auto side = [](Kind kind) { return kind == Kind::number ? Kind::right : kind; };
  Kind strong = base;
  for (Piece& piece : pieces) {
    // A number after letters from left to right is one of them (rule W7).
    if (piece.kind == Kind::number && strong == Kind::left) piece.kind = Kind::left;
    if (piece.kind == Kind::left || piece.kind == Kind::right) strong = piece.kind;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind != Kind::neutral) continue;
    const Kind before = i == 0 ? base : side(pieces[i - 1].kind);
    const Kind after = i + 1 == pieces.size() ? base : side(pieces[i + 1].kind);
    pieces[i].kind = before == after ? before : base;
  }
  for (Piece& piece : pieces) {
    if (paragraph_right_to_left) {
      piece.level = piece.kind == Kind::right ? 1 : 2;
    } else {
      piece.level = piece.kind == Kind::left ? 0 : piece.kind == Kind::right ? 1 : 2;
    }
  }
}

}  // namespace

bool may_be_right_to_left(std::string_view text) {
  // U+0590 to U+08FF, U+FB1D to U+FEFF and U+10800 to U+1EFFF by their first bytes.
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0xD6) continue;
    if (c <= 0xDF) return true;
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c == 0xE0 && next >= 0xA0 && next <= 0xA3) return true;
    if (c == 0xEF && next >= 0xAC && next <= 0xBB) return true;
    if (c == 0xF0 && (next == 0x90 || next == 0x9E)) return true;
  }
  return false;
}

bool runs_right_to_left(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const Kind kind = kind_of(c.code);
    if (kind == Kind::left || kind == Kind::right) return kind == Kind::right;
    at += c.length;
  }
  return false;
}

std::vector<DirectionRun> visual_runs(std::string_view text, size_t begin, size_t end,
                                      bool paragraph_right_to_left) {
  std::vector<Piece> pieces = pieces_of(text, begin, end);
  resolve(pieces, paragraph_right_to_left);
  // Rule L2: from the highest level down, every stretch at or above it is turned round.
  for (uint8_t level = 2; level >= 1; --level) {
    for (size_t i = 0; i < pieces.size();) {
      size_t stop = i;
      while (stop < pieces.size() && pieces[stop].level >= level) ++stop;
      std::reverse(pieces.begin() + static_cast<ptrdiff_t>(i),
                   pieces.begin() + static_cast<ptrdiff_t>(stop));
      i = std::max(stop, i + 1);
    }
  }
  std::vector<DirectionRun> runs;
  for (const Piece& piece : pieces) {
    const bool right_to_left = piece.level % 2 == 1;
    if (!runs.empty() && runs.back().right_to_left == right_to_left) {
      if (!right_to_left && runs.back().end == piece.begin) {
        runs.back().end = piece.end;
        continue;
      }
      if (right_to_left && runs.back().begin == piece.end) {
        runs.back().begin = piece.begin;
        continue;
      }
    }
    runs.push_back({piece.begin, piece.end, right_to_left});
  }
  return runs;
}

char32_t mirrored(char32_t code) {
  constexpr std::u32string_view kPairs = U"()[]{}<>«»‹›≤≥⟨⟩";
  const size_t at = kPairs.find(code);
  return at == std::u32string_view::npos ? code : kPairs[at ^ 1];
}

}  // namespace infer::gui
