#include "engine/model/ngram.h"

namespace infer {

void find_ngram_rows(const NgramSpec& spec, std::span<const int32_t> tokens,
                     std::span<uint64_t> rows) {
  const size_t longest = spec.multipliers.size();
  const size_t each = spec.heads.size() / (longest - 1);  // heads of n-grams of one length
  uint64_t mix = 0;
  bool hidden = false;
  for (size_t back = 0; back < longest; ++back) {
    int32_t token = spec.end;
    if (!hidden && back < tokens.size()) token = tokens[back] < 0 ? spec.image : tokens[back];
    hidden = hidden || (back > 0 && token == spec.end);
    mix ^= static_cast<uint64_t>(token) * spec.multipliers[back];
    if (back == 0) continue;
    for (size_t h = (back - 1) * each; h < back * each; ++h) {
      rows[h] = spec.heads[h].offset + mix % spec.heads[h].size;
    }
  }
}

}  // namespace infer
