// Integers and 8-bit floats with scales: what they stand for by the formula of their format, and
// what is refused.
#include <cmath>
#include <functional>

#include "engine/core/half.h"
#include "tests/formats/raw_checkpoint.h"

using namespace infer;
using namespace infer::test;

namespace {

/// E4M3 by its definition: 1 sign, 4 exponent bits of bias 7, 3 bits after the point.
float e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int fraction = code & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

/// A matrix of bytes and a scale for each rectangle.
struct BytesCase {
  const char* type = "F8_E4M3";
  int64_t n = 5, k = 96;
  int64_t rows_each = 1, columns_each = 96;
  int64_t matrices = 1;
  const char* scale_name = "m.weight_scale_inv";
  const char* scale_type = "F32";
  float factor = 1;
  DType made = DType::q8_0;
  const char* config = "";

  std::vector<float> expected;
  std::vector<float> scale_of;  ///< by element
  RawSafetensors tensors;

  int64_t down() const { return (n + rows_each - 1) / rows_each; }
  int64_t across() const { return (k + columns_each - 1) / columns_each; }

  void make() {
    Numbers numbers;
    const bool is_float = type[0] == 'F';
    std::vector<uint8_t> codes(static_cast<size_t>(matrices * n * k));
    for (uint8_t& code : codes) {
      do {
        code = static_cast<uint8_t>(numbers.below(256));
      } while (is_float && (code & 0x7f) == 0x7f);
    }
    std::vector<float> scales(static_cast<size_t>(matrices * down() * across()));
    for (float& scale : scales) scale = bf16_to_f32(f32_to_bf16(numbers.unit() * 0.01f));
    for (int64_t i = 0; i < matrices * n * k; ++i) {
      const int64_t row = i / k;
      const int64_t line = row / n * down() + row % n / rows_each;
      const float scale =
          scales[static_cast<size_t>(line * across() + i % k / columns_each)] * factor;
      const uint8_t code = codes[static_cast<size_t>(i)];
      scale_of.push_back(scale);
      expected.push_back((is_float ? e4m3(code) : static_cast<float>(static_cast<int8_t>(code))) *
                         scale);
    }
    std::vector<int64_t> shape{n, k};
    std::vector<int64_t> scale_shape{down(), across()};
    if (matrices > 1) {
      shape.insert(shape.begin(), matrices);
      scale_shape.insert(scale_shape.begin(), matrices);
    }
    tensors.put("m.weight", type, shape, codes);
    if (std::string(scale_type) == "F32") {
      tensors.put(scale_name, "F32", scale_shape, scales);
    } else {
      std::vector<uint16_t> halves;
      for (const float scale : scales) halves.push_back(f32_to_bf16(scale));
      tensors.put(scale_name, "BF16", scale_shape, halves);
    }
  }
};

/// Codes packed along the rows of a matrix, as compressed-tensors does.
struct PackedCase {
  int bits = 4;
  int64_t n = 11, k = 96, group = 32;
  bool zeros = false;
  DType made = DType::q4_0;

  std::vector<float> expected;
  RawSafetensors tensors;

  void make() {
    Numbers numbers;
    const int64_t each = 32 / bits;
    const int64_t groups = k / group;
    std::vector<uint32_t> packed(static_cast<size_t>(n * ((k + each - 1) / each)));
    std::vector<uint16_t> scales(static_cast<size_t>(n * groups));
    std::vector<uint32_t> zero_points(static_cast<size_t>((n + each - 1) / each * groups));
    std::vector<int> zero_of(scales.size(), 1 << (bits - 1));
    for (uint16_t& scale : scales) scale = f32_to_f16(numbers.unit() * 0.01f);
    if (zeros) {
      for (int64_t row = 0; row < n; ++row) {
        for (int64_t g = 0; g < groups; ++g) {
          const int zero = numbers.below(1 << bits);
          zero_of[static_cast<size_t>(row * groups + g)] = zero;
          zero_points[static_cast<size_t>(row / each * groups + g)] |= static_cast<uint32_t>(zero)
                                                                       << (bits * (row % each));
        }
      }
    }
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t i = 0; i < k; ++i) {
        const int code = numbers.below(1 << bits);
        packed[static_cast<size_t>(row * ((k + each - 1) / each) + i / each)] |=
            static_cast<uint32_t>(code) << (bits * (i % each));
        const auto at = static_cast<size_t>(row * groups + i / group);
        expected.push_back(f16_to_f32(scales[at]) * static_cast<float>(code - zero_of[at]));
      }
    }
    tensors.put("m.weight_packed", "I32", {n, (k + each - 1) / each}, packed);
    tensors.put("m.weight_scale", "F16", {n, groups}, scales);
    tensors.put("m.weight_shape", "I64", {2}, std::vector<int64_t>{n, k});
    if (zeros) {
      tensors.put("m.weight_zero_point", "I32", {(n + each - 1) / each, groups}, zero_points);
    }
  }
};

}  // namespace

TEST_CASE("8-bit floats and integers with scales stand for code times scale") {
  const char* blocks = R"({"quant_method":"fp8","weight_block_size":[4,64]})";
  BytesCase cases[] = {
      {.config = R"({"quant_method":"fp8"})"},
      {.n = 10, .k = 160, .rows_each = 4, .columns_each = 64, .config = blocks},
      {.n = 8, .k = 128, .rows_each = 4, .columns_each = 64},
      {.n = 6, .rows_each = 6, .scale_name = "m.weight_scale", .scale_type = "BF16"},
      {.n = 7, .k = 33, .columns_each = 33, .made = DType::f32},
      {.n = 4, .k = 64, .rows_each = 2, .columns_each = 16, .made = DType::f32},
      {.n = 4, .k = 64, .rows_each = 2, .columns_each = 32, .matrices = 3},
      {.n = 4, .k = 64, .rows_each = 1, .columns_each = 64, .matrices = 2},
      {.type = "I8", .scale_name = "m.weight_scale"},
      {.type = "I8", .columns_each = 32, .scale_name = "m.weight_scale", .scale_type = "BF16"},
      {.type = "I8", .scale_name = "m.SCB", .factor = 1.0f / 127},
  };
  for (BytesCase& c : cases) {
    CAPTURE(c.type);
    CAPTURE(c.rows_each);
    CAPTURE(c.columns_each);
    c.make();
    const bool is_float = c.type[0] == 'F';
    if (!is_float) c.tensors.put("m.weight_format", "U8", {}, std::string(1, '\0'));
    // For programs that store activations or the cache in 8 bits.
    const char* const unused[] = {"m.activation_scale", "experts.up_proj_activation_scale",
                                  "m.input_scale", "k_proj.k_scale"};
    for (const char* name : unused) c.tensors.put(name, "F32", {}, std::vector<float>{3});
    const Checkpoint checkpoint(c.tensors, c.config);
    const auto source = checkpoint.open();
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    for (const char* name : unused) CHECK((*source)->find(name) == nullptr);
    const Weight* weight = (*source)->find("m.weight");
    REQUIRE(weight != nullptr);
    CHECK(weight->desc.type == c.made);
    CHECK(weight->desc.shape[0] == c.k);
    CHECK((*source)->find(c.scale_name) == nullptr);
    const std::vector<float> found = values_of(**source, "m.weight");
    REQUIRE(found.size() == c.expected.size());
    for (size_t block = 0; block < found.size(); block += 32) {
      // Of a block, and of single numbers where there are no blocks.
      const size_t end = std::min(found.size(), c.made == DType::f32 ? block + 1 : block + 32);
      float largest = 0;
      for (size_t i = block; i < end; ++i) largest = std::max(largest, std::fabs(c.expected[i]));
      for (size_t i = block; i < end; ++i) {
        const float wanted = c.expected[i];
        // The scale as binary16; below an eighth of the largest, half a level.
        float allowed = c.made == DType::f32 ? 0 : std::fabs(wanted) * 0x1p-11f + 4e-8f * 127;
        if (is_float && std::fabs(wanted) < largest / 8) allowed += largest / 128;
        CHECK(std::fabs(found[i] - wanted) <= allowed);
      }
    }
  }
}

TEST_CASE("integers of compressed-tensors are kept as they are") {
  PackedCase cases[] = {
      {},
      {.k = 128, .group = 128},
      {.zeros = true, .made = DType::q5_0},
      {.bits = 8, .made = DType::q8_0},
      {.bits = 8, .zeros = true, .made = DType::f32},
      {.n = 3, .k = 44, .group = 11, .made = DType::f32},
      {.n = 3, .k = 64, .group = 16, .zeros = true, .made = DType::f32},
  };
  for (PackedCase& c : cases) {
    CAPTURE(c.bits);
    CAPTURE(c.group);
    c.make();
    const Checkpoint checkpoint(c.tensors);
    const auto source = checkpoint.open();
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    REQUIRE((*source)->weights().size() == 1);
    CHECK((*source)->weights()[0].desc.type == c.made);
    CHECK(values_of(**source, "m.weight") == c.expected);
  }
}

TEST_CASE("parts of scaled weights that do not fit each other are named") {
  struct Case {
    std::function<void(RawSafetensors&)> change;
    const char* why;
    StatusCode code = StatusCode::bad_file;
  };
  const auto floats = [](const char* name, std::vector<int64_t> shape) {
    return [=](RawSafetensors& t) {
      size_t count = 1;
      for (const int64_t side : shape) count *= static_cast<size_t>(side);
      t.put(name, "F32", shape, std::vector<float>(count, 0.5f));
    };
  };
  const auto shape_of = [](int64_t n, int64_t k) {
    return [=](RawSafetensors& t) {
      t.put("m.weight_shape", "I64", {2}, std::vector<int64_t>{n, k});
    };
  };
  const Case bytes[] = {
      {floats("m.weight_scale_inv", {5, 7}), "5 rows and 96 columns"},
      {floats("m.weight_scale_inv", {3, 1}), "5 rows and 96 columns"},
      {floats("m.weight_scale_inv", {2, 5, 1}), "1 matrices"},
      {[](RawSafetensors& t) { t.put("m.weight_scale_inv", "I64", {1}, std::string(8, '1')); },
       "found I64"},
      {[](RawSafetensors& t) { t.put("m.weight_zero_point", "I8", {1}, std::string(1, '1')); },
       "zero points", StatusCode::unsupported},
  };
  for (const Case& c : bytes) {
    BytesCase good;
    good.make();
    c.change(good.tensors);
    refused(good.tensors, c.why, c.code);
  }
  const Case packed[] = {
      {[](RawSafetensors& t) { t.leave_out("m.weight_shape"); }, "m.weight_shape' is missing"},
      {[](RawSafetensors& t) { t.leave_out("m.weight_scale"); }, "m.weight_scale' is missing"},
      {shape_of(11, 0), "expected rows and columns, found 0"},
      {shape_of(-11, 96), "expected rows and columns, found -11"},
      {shape_of(11, 128), "codes of 4 or 8 bits for 11 rows of 128 columns"},
      {shape_of(12, 96), "codes of 4 or 8 bits for 12 rows"},
      {shape_of(int64_t{1} << 41, 96), "expected rows and columns"},
      {floats("m.weight_scale", {11, 7}), "11 rows and 96 columns"},
      {[](RawSafetensors& t) {
         t.put("m.weight_packed", "U8", {11, 48}, std::string(528, '1'));
       },
       "expected I32"},
      {[](RawSafetensors& t) {
         t.put("m.weight_zero_point", "I32", {1, 3}, std::vector<int32_t>(3));
       },
       "6 elements"},
      {[](RawSafetensors& t) { t.put("m.weight_g_idx", "I32", {96}, std::vector<int32_t>(96, 1)); },
       "not in order", StatusCode::unsupported},
  };
  for (const Case& c : packed) {
    PackedCase good;
    good.make();
    c.change(good.tensors);
    refused(good.tensors, c.why, c.code);
  }
}

TEST_CASE("weights and scales that are no numbers are refused when they are read") {
  const auto fails = [](const RawSafetensors& tensors, const char* why) {
    const Checkpoint checkpoint(tensors);
    const auto source = checkpoint.open();
    REQUIRE(source.has_value());
    const Weight* weight = (*source)->find("m.weight");
    std::vector<std::byte> data(static_cast<size_t>(weight->desc.extent_bytes()));
    const Status status = (*source)->read(weight->place, 0, data);
    CHECK(status.code() == StatusCode::bad_file);
    CHECK(status.message().find(why) != std::string::npos);
  };
  BytesCase weights;
  weights.make();
  weights.tensors.put("m.weight", "F8_E4M3", {5, 96}, std::string(480, '\x7f'));
  fails(weights.tensors, "expected finite weights");
  BytesCase scales;
  scales.make();
  scales.tensors.put("m.weight_scale_inv", "F32", {1}, std::vector<float>{INFINITY});
  fails(scales.tensors, "m.weight_scale_inv");
}

TEST_CASE("every bit flip and truncation of scaled weights gives a typed error or a source") {
  BytesCase bytes{.n = 2, .k = 32, .columns_each = 32};
  bytes.make();
  PackedCase packed{.n = 2, .k = 32};
  packed.make();
  for (const RawSafetensors* tensors : {&bytes.tensors, &packed.tensors}) {
    const std::string whole = tensors->bytes();
    const Checkpoint checkpoint(*tensors);
    int opened = 0;
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      CAPTURE(bit);
      std::string file = whole;
      file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
      write_bytes(checkpoint.path(), bytes_of(file));
      opened += opens_or_says(checkpoint) ? 1 : 0;
    }
    CHECK(opened > 0);
    for (size_t size = 0; size < whole.size(); size += 3) {
      CAPTURE(size);
      write_bytes(checkpoint.path(), bytes_of(whole.substr(0, size)));
      CHECK_FALSE(opens_or_says(checkpoint));
    }
  }
}
