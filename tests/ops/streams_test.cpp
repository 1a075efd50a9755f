// Reading several places of a matrix at once, or several columns, changes no bit.
#include <doctest.h>

#include <cstring>
#include <span>
#include <vector>

#include "backends/cpu/kernels.h"
#include "engine/core/dtype.h"
#include "tests/ops/packed_rows.h"
#include "tests/random_values.h"

namespace infer::cpu {
namespace {

constexpr int64_t kK = 512;

/// The sums of `columns` columns of x, each of kK elements, beside each other.
std::vector<float> products(const IsaKernels& isa, const RowKernel& kernel,
                            std::span<const std::byte> weights, int64_t groups,
                            std::span<const float> x, int64_t columns, int streams) {
  std::vector<std::byte> bytes(static_cast<size_t>(Panel::bytes(columns, kK)));
  const Panel panel{bytes.data(), columns};
  for (int64_t c = 0; c < columns; ++c) isa.vec->quantise(x.data() + c * kK, kK, panel, c);
  std::vector<float> sums(static_cast<size_t>(groups * kernel.rows * columns), 1.0f);
  kernel.run(weights.data(), groups, kK, panel, streams, sums.data());
  return sums;
}

TEST_CASE("streams: any number gives the same bits, for each column as alone") {
  constexpr int64_t kMostGroups = 9;
  constexpr int64_t kMostColumns = 17;
  const std::vector<float> x = test::random_values(kK * kMostColumns, 5);
  for (const IsaKernels& isa : all_isas()) {
    if (!isa_runs_here(isa.name)) continue;
    CAPTURE(isa.name);
    for (const RowKernel* kernel : isa.rows) {
      CAPTURE(dtype_info(kernel->weights).name);
      const std::vector<std::byte> weights = packed_rows(*kernel, kMostGroups, kK);
      std::vector<std::vector<float>> alone;
      for (int64_t c = 0; c < kMostColumns; ++c) {
        alone.push_back(products(isa, *kernel, weights, kMostGroups,
                                 std::span(x).subspan(static_cast<size_t>(c * kK)), 1, 1));
      }
      const auto check = [&](int64_t groups, int64_t columns, int streams) {
        CAPTURE(groups);
        CAPTURE(columns);
        CAPTURE(streams);
        const std::vector<float> sums =
            products(isa, *kernel, weights, groups, x, columns, streams);
        int64_t wrong = 0;
        for (int64_t g = 0; g < groups; ++g) {
          for (int64_t c = 0; c < columns; ++c) {
            const float* own = alone[static_cast<size_t>(c)].data() + g * kernel->rows;
            const float* got = sums.data() + (g * columns + c) * kernel->rows;
            wrong += std::memcmp(own, got, static_cast<size_t>(kernel->rows) * sizeof(float)) != 0;
          }
        }
        CHECK(wrong == 0);
      };
      for (const int streams : {1, 2, 4}) {
        for (int64_t groups = 1; groups <= kMostGroups; ++groups) check(groups, 1, streams);
        for (const int64_t groups : {1, 2, 5}) {
          for (int64_t columns = 2; columns <= kMostColumns; ++columns) {
            check(groups, columns, streams);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace infer::cpu
