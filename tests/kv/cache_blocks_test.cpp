// A cache of blocks that the heads do not fill is refused on every device.
#include "engine/graph/cache_blocks.h"

#include <doctest.h>

namespace infer {
namespace {

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
