#include "engine/spec/ngram_drafter.h"

#include <algorithm>

#include "engine/spec/match.h"

namespace infer {
namespace {

constexpr int64_t kLongestNgram = 8;
constexpr int64_t kBlock = 32;

struct Found {
  int64_t length = 0;
  int64_t end = 0;  ///< position after the occurrence
};

Found find_ngram(std::span<const int32_t> text) {
  const int64_t size = std::ssize(text);
  Found best;
  if (size <= kShortestMatch) return best;
  const int32_t* const data = text.data();
  const int32_t last = data[size - 1];
  const int32_t before = data[size - 2];
  for (int64_t end = size - 1; end >= kShortestMatch;) {
    const int64_t stop = std::max(end - kBlock, kShortestMatch - 1);
    // Nearly everywhere not even two tokens match, and the compiler makes vectors of this loop.
    int32_t any = 0;
    for (int64_t i = stop; i < end; ++i) any |= (data[i] == last) & (data[i - 1] == before);
    if (any == 0) {
      end = stop;
      continue;
    }
    for (; end > stop; --end) {
      int64_t length = 0;
      while (length < std::min(kLongestNgram, end) &&
             data[end - 1 - length] == data[size - 1 - length]) {
        ++length;
      }
      if (length > best.length) best = {length, end};
      if (length == kLongestNgram) return best;
    }
  }
  return best.length >= kShortestMatch ? best : Found{};
}

}  // namespace

Status NgramDrafter::propose(std::span<DraftRequest* const> requests) {
  for (DraftRequest* const request : requests) {
    request->tokens.clear();
    const size_t seen = std::min(request->history.size(), static_cast<size_t>(kLookBack));
    const std::span<const int32_t> text = request->history.last(seen);
    const Found found = find_ngram(text);
    if (found.length > 0) propose_copy(text, found.end, found.length, true, *request);
  }
  return {};
}

}  // namespace infer
