#include "engine/text/stop_strings.h"

#include <algorithm>

namespace infer {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  std::erase_if(strings_, [](const std::string& s) { return s.empty(); });
}

/// Finds the string that begins first; if several begin there, the longest.
size_t StopStrings::search() {
  size_t first = std::string::npos;
  for (const std::string& string : strings_) {
    const size_t at = pending_.find(string);
    if (at == std::string::npos) continue;
    if (at < first || (at == first && string.size() > found_->size())) {
      first = at;
      found_ = &string;
    }
  }
  return first;
}

std::string StopStrings::take(size_t length) {
  std::string out = pending_.substr(0, length);
  pending_.erase(0, found() ? std::string::npos : length);
  return out;
}

std::string StopStrings::push(std::string_view text) {
  if (found()) return {};
  pending_ += text;
  size_t held = 0;  // bytes at the end with which one of the strings begins
  for (const std::string& string : strings_) {
    for (size_t n = std::min(string.size() - 1, pending_.size()); n > held; --n) {
      if (pending_.ends_with(std::string_view(string).substr(0, n))) held = n;
    }
  }
  const size_t first = search();
  const size_t open = pending_.size() - held;
  if (found() && first <= open) return take(first);
  found_ = nullptr;  // one that begins before it may yet be completed
  return take(open);
}

std::string StopStrings::finish() {
  if (found()) return {};
  return take(search());
}

}  // namespace infer
