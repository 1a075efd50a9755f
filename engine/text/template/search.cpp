#include "engine/text/template/search.h"

#include <algorithm>
#include <vector>

#include "engine/core/platform/c_library.h"

namespace infer::jinja {
namespace {

/// rfind() by Knuth, Morris and Pratt (1977), from the end. `what` is not empty.
size_t find_last_long(std::string_view text, std::string_view what) {
  const size_t size = what.size();
  const auto from_end = [](std::string_view s, size_t i) { return s[s.size() - 1 - i]; };
  // By number of characters that match: how many of them still match one place further.
  std::vector<size_t> fallback(size + 1);
  for (size_t i = 1, matched = 0; i < size; ++i) {
    while (matched > 0 && from_end(what, i) != from_end(what, matched)) matched = fallback[matched];
    if (from_end(what, i) == from_end(what, matched)) ++matched;
    fallback[i + 1] = matched;
  }
  for (size_t i = 0, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && from_end(text, i) != from_end(what, matched)) matched = fallback[matched];
    if (from_end(text, i) == from_end(what, matched)) ++matched;
    if (matched == size) return text.size() - 1 - i;
  }
  return std::string_view::npos;
}

}  // namespace

size_t find_text(Budget& budget, std::string_view text, std::string_view what, size_t from) {
  constexpr size_t npos = std::string_view::npos;
  if (from > text.size() || what.size() > text.size() - from) return npos;
  if (what.empty()) return from;
  // Searched in pieces: the budget may end within a text, and what is found soon costs little. A
  // match begins in a piece and may end behind it.
  constexpr size_t kPiece = 4096;
  const size_t piece = std::max(kPiece, what.size());
  while (budget.work(what.size(), 1)) {
    const size_t size = std::min(text.size() - from, piece + what.size() - 1);
    const size_t found = os::find_text(text.substr(from, size), what);
    if (found != npos) {
      budget.work(found, 1);
      return from + found;
    }
    budget.work(size, 1);
    if (size == text.size() - from) return npos;
    from += size - what.size() + 1;
  }
  return npos;
}

size_t find_last_text(Budget& budget, std::string_view text, std::string_view what) {
  constexpr size_t kShort = 8;
  if (what.size() > text.size()) return std::string_view::npos;
  if (what.size() <= kShort) {
    budget.work(text.size(), Budget::kLoop);
    return text.rfind(what);
  }
  budget.work(what.size(), 4 * Budget::kLoop);
  if (!budget.work(text.size(), Budget::kLoop)) return std::string_view::npos;
  return find_last_long(text, what);
}

}  // namespace infer::jinja
