// Products in tiles give the bits of products in vectors.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cpu/kernels.h"
#include "engine/core/dtype.h"
#include "tests/ops/emulated_kernels.h"
#include "tests/ops/packed_rows.h"
#include "tests/random_values.h"
#include "tests/support.h"

namespace infer::cpu {
namespace {

using test::random_values;

TEST_CASE("tiles: the same bits as vectors") {
  constexpr int64_t kGroups = 3;
  for (const EmulatedKernel& emulated : all_emulated_kernels()) {
    CAPTURE(emulated.isa);
    CAPTURE(dtype_info(emulated.kernel->weights).name);
    if (!isa_runs_here(emulated.isa)) {
      test::skipped(std::string(emulated.isa) + ": tiles: this machine does not have it");
      continue;
    }
    const auto isas = all_isas();
    const auto isa = std::ranges::find_if(
        isas, [&](const IsaKernels& each) { return std::strcmp(each.name, emulated.isa) == 0; });
    REQUIRE(isa != isas.end());
    const auto plain = std::ranges::find(isa->rows, emulated.kernel->weights, &RowKernel::weights);
    REQUIRE(plain != isa->rows.end());
    REQUIRE((*plain)->rows == emulated.kernel->rows);
    // Seventeen parts of 32 weights, where a block allows: tiles take sixteen at once, or pairs.
    const int64_t k = dtype_info(emulated.kernel->weights).block_elements == 32 ? 544 : 768;
    const std::vector<std::byte> weights = packed_rows(*emulated.kernel, kGroups, k);
    for (const int64_t columns : {1, 5, 16, 31, 32, 33, 47, 48, 128}) {
      CAPTURE(columns);
      // What follows a panel is not read.
      std::vector<std::byte> bytes(static_cast<size_t>(Panel::bytes(columns, k)));
      const Panel panel{bytes.data(), columns};
      const std::vector<float> x = random_values(columns * k, 11);
      for (int64_t c = 0; c < columns; ++c) {
        isa->vec->quantise(x.data() + c * k, k, panel, c);
      }
      const auto count = static_cast<size_t>(kGroups * columns * emulated.kernel->rows);
      std::vector<float> in_vectors(count, 1.0f);
      std::vector<float> in_tiles(count, 2.0f);
      (*plain)->run(weights.data(), kGroups, k, panel, 1, in_vectors.data());
      emulated.kernel->run(weights.data(), kGroups, k, panel, 1, in_tiles.data());
      CHECK(std::memcmp(in_vectors.data(), in_tiles.data(), count * sizeof(float)) == 0);
      CHECK(std::ranges::any_of(in_tiles, [](float y) { return y != 0; }));
    }
  }
}

}  // namespace
}  // namespace infer::cpu
