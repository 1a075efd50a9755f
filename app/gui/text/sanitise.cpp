#include "gui/text/sanitise.h"

#include <utf8proc.h>

#include <algorithm>

#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr std::string_view kUnknown = "\xEF\xBF\xBD";  // U+FFFD
constexpr int kMaxMarks = 8;

enum class Read { valid, invalid, cut };

/// Reads a character of two bytes or more from the start of `bytes`.
Read read_char(std::string_view bytes, Char& c) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0xC2 || lead > 0xF4) return Read::invalid;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return Read::cut;
    const auto byte = static_cast<unsigned char>(bytes[i]);
    // The second byte rules out longer spellings than needed, surrogates and codes above U+10FFFF.
    unsigned char least = 0x80, most = 0xBF;
    if (i == 1 && lead == 0xE0) least = 0xA0;
    if (i == 1 && lead == 0xED) most = 0x9F;
    if (i == 1 && lead == 0xF0) least = 0x90;
    if (i == 1 && lead == 0xF4) most = 0x8F;
    if (byte < least || byte > most) return Read::invalid;
  }
  c = char_at(bytes.substr(0, length), 0);
  return Read::valid;
}

bool is_mark(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME;
}

}  // namespace

void Sanitiser::put(char32_t code, std::string_view bytes, std::string& out) {
  const bool follows_cr = after_cr_;
  after_cr_ = code == '\r';
  if (code == '\n' && follows_cr) return;
  if (code == '\r' || code == 0x85 || code == 0x2028 || code == 0x2029) code = '\n';
  if (code == '\n') {
    out += '\n';
    marks_ = 0;
    return;
  }
  if (is_mark(code)) {
    if (++marks_ <= kMaxMarks) out += bytes;
    return;
  }
  const bool hint = code == 0x200E || code == 0x200F || code == 0x061C || code == 0xAD ||
                    code == 0xFEFF || code == 0x2060;
  if (hint) return;
  marks_ = 0;
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x206F);
  const bool tag = code >= 0xE0000 && code <= 0xE0FFF;
  if (code == '\t') {
    out += '\t';
  } else if (code < 0x20 || code == 0x7F) {
    append_utf8(out, code == 0x7F ? 0x2421 : 0x2400 + code);
  } else if ((code >= 0x80 && code < 0xA0) || direction || tag) {
    out += kUnknown;
  } else {
    out += bytes;
  }
}

void Sanitiser::append(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_.append(bytes);
    held_.clear();
    bytes = joined;
  }
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    while (end < bytes.size() && bytes[end] >= 0x20 && bytes[end] < 0x7F) ++end;
    if (end > at) {
      out.append(bytes.substr(at, end - at));
      marks_ = 0;
      after_cr_ = false;
      at = end;
      continue;
    }
    Char c{static_cast<unsigned char>(bytes[at]), 1};
    if (c.code >= 0x80) {
      const Read read = read_char(bytes.substr(at), c);
      if (read == Read::cut) {
        held_ = bytes.substr(at);
        return;
      }
      if (read == Read::invalid) {
        out += kUnknown;
        marks_ = 0;
        after_cr_ = false;
        ++at;
        continue;
      }
    }
    put(c.code, bytes.substr(at, c.length), out);
    at += c.length;
  }
}

void Sanitiser::finish(std::string& out) {
  if (!held_.empty()) out += kUnknown;
  *this = {};
}

std::string sanitise(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Sanitiser sanitiser;
  sanitiser.append(bytes, out);
  sanitiser.finish(out);
  return out;
}

std::string one_line(std::string_view bytes, size_t most_bytes) {
  constexpr std::string_view kCut = "…";
  // Some bytes go away: a few more than may be shown are looked at.
  const std::string_view read = bytes.substr(0, 2 * most_bytes + 64);
  std::string line;
  Sanitiser sanitiser;
  sanitiser.append(read, line);
  const bool is_cut = read.size() < bytes.size();
  if (!is_cut) sanitiser.finish(line);
  std::ranges::replace(line, '\n', ' ');
  std::ranges::replace(line, '\t', ' ');
  if (!is_cut && line.size() <= most_bytes) return line;
  line.resize(first_bytes(line, most_bytes - std::min(most_bytes, kCut.size())).size());
  return line.append(kCut);
}

}  // namespace infer::gui
