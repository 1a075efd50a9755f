#include "backends/gpu/tables.h"

#include "engine/quant/iq_grids.h"

namespace infer::gpu {

std::vector<uint16_t> iq_tables() {
  std::vector<uint16_t> all;
  all.reserve(8192);
  const auto add = [&](const auto& grid) {
    all.insert(all.end(), std::begin(grid), std::end(grid));
  };
  add(kIq2XxsGrid);
  add(kIq2XsGrid);
  add(kIq2SGrid);
  add(kIq3XxsGrid);
  add(kIq3SGrid);
  add(kIq1Grid);
  return all;
}

}  // namespace infer::gpu
