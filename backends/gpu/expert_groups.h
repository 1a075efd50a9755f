// How the columns of a product with experts are sorted by their expert.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/core/checked.h"

namespace infer::gpu {

/// What a product with experts makes of its places [used, 1, rows]: groups of so many at most,
/// which share an expert. In numbers of four bytes.
struct ExpertGroups {
  int64_t most = 1;     ///< groups
  int64_t places = 0;   ///< where they begin
  int64_t numbers = 0;  ///< all
};

inline ExpertGroups expert_groups(int64_t used, int64_t rows, int64_t experts, int64_t columns) {
  const int64_t places = used * rows;
  ExpertGroups groups;
  groups.most = div_ceil(places, columns) + std::min(experts, places);
  groups.places = 4 + 4 * groups.most;
  groups.numbers = groups.places + 2 * places;
  return groups;
}

}  // namespace infer::gpu
