// Reading several places of a matrix at once changes no bit.
#include <doctest.h>

#include <cstring>
#include <vector>

#include "backends/cpu/kernels.h"
#include "engine/core/dtype.h"
#include "tests/ops/packed_rows.h"
#include "tests/random_values.h"

namespace infer::cpu {
namespace {

TEST_CASE("streams: any number gives the same bits") {
  constexpr int64_t kK = 512;
  constexpr int64_t kMostGroups = 9;
  for (const IsaKernels& isa : all_isas()) {
    if (!isa_runs_here(isa.name)) continue;
    CAPTURE(isa.name);
    const std::vector<float> x = test::random_values(kK, 5);
    std::vector<std::byte> bytes(static_cast<size_t>(Panel::bytes(1, kK)));
    const Panel panel{bytes.data(), 1};
    isa.vec->quantise(x.data(), kK, panel, 0);
    for (const RowKernel* kernel : isa.rows) {
      CAPTURE(dtype_info(kernel->weights).name);
      const std::vector<std::byte> weights = packed_rows(*kernel, kMostGroups, kK);
      for (int64_t groups = 1; groups <= kMostGroups; ++groups) {
        CAPTURE(groups);
        const auto count = static_cast<size_t>(groups * kernel->rows);
        std::vector<float> one(count, 1.0f);
        kernel->run(weights.data(), groups, kK, panel, 1, one.data());
        for (const int streams : {2, 4}) {
          CAPTURE(streams);
          std::vector<float> several(count, 2.0f);
          kernel->run(weights.data(), groups, kK, panel, streams, several.data());
          CHECK(std::memcmp(one.data(), several.data(), count * sizeof(float)) == 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace infer::cpu
