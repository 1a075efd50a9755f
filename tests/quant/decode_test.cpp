// Decoding against blocks of random bits and the exact values that ggml gives for them.
#include <doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/quant/quant.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Bit for bit, but NaN equals NaN.
void check_values(const DTypeInfo& info, const std::string& blocks, const std::string& values) {
  CAPTURE(info.name);
  const std::string bytes = read_text(blocks);
  const std::vector<float> expected = read_f32(values);
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  const auto block_elements = static_cast<size_t>(info.block_elements);
  REQUIRE(bytes.size() == 64 * block_bytes);
  REQUIRE(expected.size() == 64 * block_elements);
  std::vector<uint16_t> aligned(bytes.size() / 2 + 1);  // as aligned as the contract demands
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  std::vector<float> out(expected.size() + 1, 12345.0f);
  quant_traits(info.type).decode(aligned.data(), out.data(), static_cast<int64_t>(expected.size()));
  CHECK(out.back() == 12345.0f);
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool same = std::isnan(expected[i])
                          ? std::isnan(out[i])
                          : std::bit_cast<uint32_t>(out[i]) == std::bit_cast<uint32_t>(expected[i]);
    if (!same && wrong++ == 0) {
      MESSAGE("weight ", i % block_elements, " of block ", i / block_elements, ": expected ",
              expected[i], ", found ", out[i]);
    }
  }
  CHECK(wrong == 0);
}

template <typename T>
std::vector<float> decode_values(DType type, const std::vector<T>& values) {
  // One byte off, as in a file whose alignment is 2.
  const std::span<const std::byte> source = std::as_bytes(std::span(values));
  std::vector<std::byte> bytes(2);
  bytes.insert(bytes.end(), source.begin(), source.end());
  std::vector<float> out(values.size());
  quant_traits(type).decode(bytes.data() + 2, out.data(), static_cast<int64_t>(out.size()));
  return out;
}

}  // namespace

TEST_CASE("blocks of every quantised type decode to their exact values") {
  for (const DTypeInfo& info : all_dtypes()) {
    // Q8_1 and Q8_K hold activations and are never in a file of weights.
    if (info.block_elements == 1 || info.type == DType::q8_1 || info.type == DType::q8_k) continue;
    // Checkpoints hold these in tensors of their own (formats/assembled_test.cpp).
    if (info.type == DType::nf4 || info.type == DType::fp4) continue;
    const std::string base = data_path(fmt::format("blocks/{}", info.name));
    check_values(info, base + ".blocks", base + ".f32");
  }
}

TEST_CASE("plain numbers decode to themselves") {
  CHECK(decode_values<float>(DType::f32, {1.5f, -0.0f}) == std::vector<float>{1.5f, 0});
  CHECK(decode_values<uint16_t>(DType::f16, {0x3e00, 0xc000}) == std::vector<float>{1.5f, -2});
  CHECK(decode_values<uint16_t>(DType::bf16, {0x3fc0, 0xc000}) == std::vector<float>{1.5f, -2});
  CHECK(decode_values<double>(DType::f64, {0.1, -1e30}) == std::vector<float>{0.1f, -1e30f});
  CHECK(decode_values<int8_t>(DType::i8, {-128, 127}) == std::vector<float>{-128, 127});
  CHECK(decode_values<int16_t>(DType::i16, {-32768, 7}) == std::vector<float>{-32768, 7});
  CHECK(decode_values<int32_t>(DType::i32, {INT32_MIN, 9}) == std::vector<float>{-0x1p31f, 9});
  CHECK(decode_values<int64_t>(DType::i64, {INT64_MIN, 3}) == std::vector<float>{-0x1p63f, 3});
}

TEST_CASE("the types of activations decode as scale times level") {
  struct {
    uint16_t d = 0x3800;  // one half
    uint16_t s = 0x7e00;  // not a number: not needed
    int8_t qs[32] = {4, -127, 127, -128};
  } q8_1;
  float out[256];
  quant_traits(DType::q8_1).decode(&q8_1, out, 32);
  CHECK(out[0] == 2);
  CHECK(out[1] == -63.5f);
  CHECK(out[3] == -64);
  CHECK(out[31] == 0);
  struct {
    float d = 0.25f;
    int8_t qs[256] = {4, -127};
    int16_t sums[16] = {};
  } q8_k;
  q8_k.qs[255] = -128;
  quant_traits(DType::q8_k).decode(&q8_k, out, 256);
  CHECK(out[0] == 1);
  CHECK(out[1] == -31.75f);
  CHECK(out[255] == -32);
}
