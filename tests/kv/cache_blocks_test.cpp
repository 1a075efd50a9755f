// How keys and values lie in pages. A cache of blocks that the heads do not fill is refused on
// every device.
#include "engine/graph/cache_blocks.h"

#include <doctest.h>

#include <vector>

#include "engine/graph/kv_geometry.h"

namespace infer {
namespace {

TEST_CASE("cache: pages have a row for each block of tokens that ends in them") {
  const auto layout_of = [](int32_t tokens, DType k_type = DType::f16) {
    return canonical_kv_layout(
        {{{.heads = 1, .k_dim = 64, .v_dim = 64, .v_in_k = true, .tokens = tokens}},
         k_type,
         DType::f16});
  };
  for (const auto& [tokens, rows] : {std::pair{1, 64}, {4, 16}, {6, 11}, {64, 1}, {128, 1}}) {
    const KvLayout layout = layout_of(tokens);
    CHECK(layout.kinds.at(0).page_bytes == rows * 128);
    CHECK(layout.layers.at(0).rows == rows);
  }
  // Of blocks that are no part of a page each has a row of its own there.
  const KvLayerLayout six = layout_of(6).layers.at(0);
  std::vector<int64_t> used;
  for (int64_t slot = 64; slot < 128; ++slot) {
    if (six.ends_block(slot)) used.push_back(six.row(slot));
  }
  CHECK(used == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  // Keys of blocks are never transposed, also where values lie apart.
  const KvLayout apart = layout_of(4, DType::f32);
  CHECK(apart.layers.at(0).k_element == 0);
  CHECK(apart.kinds.at(0).page_bytes == 16 * (256 + 128));
}

TEST_CASE("cache: keys and values are whole blocks of their types") {
  const auto check = [](KvLayerShape shape, DType keys, DType values) {
    return check_blocks({{shape}, keys, values}).code();
  };
  CHECK(check({1, 12, 12}, DType::f16, DType::bf16) == StatusCode::ok);
  CHECK(check({1, 64, 96}, DType::q8_0, DType::q4_0) == StatusCode::ok);
  CHECK(check({1, 48, 64}, DType::q8_0, DType::f16) == StatusCode::unsupported);
  CHECK(check({1, 64, 48}, DType::f16, DType::q4_0) == StatusCode::unsupported);
}

}  // namespace
}  // namespace infer
