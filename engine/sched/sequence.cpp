#include <algorithm>

#include "engine/sched/scheduler.h"

namespace infer {

void Sequence::reserve_one() {
  if (tokens.size() == tokens.capacity()) tokens.reserve(2 * tokens.size() + 1);
  if (generated.capacity() <= tokens.size()) generated.reserve(2 * tokens.size() + 1);
}

void Sequence::append_generated(int32_t token) {
  reserve_one();
  generated.resize(tokens.size(), false);
  tokens.push_back(token);
  generated.push_back(true);
}

void Sequence::cut(size_t length) {
  tokens.resize(std::min(length, tokens.size()));
  generated.resize(std::min(length, generated.size()));
}

}  // namespace infer
