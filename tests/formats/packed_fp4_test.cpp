// 4-bit floats with 8-bit scales, as compressed-tensors and ModelOpt store them: what they stand
// for by the formula of their formats, and what is refused.
#include <cmath>
#include <functional>

#include "tests/formats/raw_checkpoint.h"

using namespace infer;
using namespace infer::test;

namespace {

/// E2M1 by its definition: a sign, two exponent bits of bias 1, one bit after the point.
float e2m1(int code) {
  const int exponent = code >> 1 & 3;
  const float fraction = 0.5f * static_cast<float>(code & 1);
  const float magnitude = exponent == 0 ? fraction : std::ldexp(1 + fraction, exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

/// E4M3 of a positive number: four exponent bits of bias 7, three bits after the point.
float e4m3(uint8_t code) {
  const int exponent = code >> 3;
  const auto fraction = static_cast<float>(code & 7);
  return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
}

struct Case {
  bool nv = true;
  int64_t n = 5, k = 192;
  int64_t matrices = 1;
  const char* codes = "m.weight_packed";
  const char* whole = nullptr;  ///< name of the whole tensor's scale

  std::vector<float> expected;  ///< but for the whole tensor's scale
  RawSafetensors tensors;

  void make() {
    Numbers numbers;
    const int64_t group = nv ? 16 : 32;
    std::vector<uint8_t> packed;
    std::vector<uint8_t> scales;
    for (int64_t i = 0; i < matrices * n * k; i += group) {
      scales.push_back(static_cast<uint8_t>(nv ? numbers.below(127) : 110 + numbers.below(30)));
      const float scale = nv ? e4m3(scales.back()) : std::ldexp(1.0f, scales.back() - 127);
      for (int64_t j = 0; j < group; j += 2) {
        const int first = numbers.below(16);
        const int second = numbers.below(16);
        packed.push_back(static_cast<uint8_t>(first | second << 4));
        expected.push_back(e2m1(first) * scale);
        expected.push_back(e2m1(second) * scale);
      }
    }
    std::vector<int64_t> shape{n, k / 2};
    std::vector<int64_t> groups{n, k / group};
    if (matrices > 1) {
      shape.insert(shape.begin(), matrices);
      groups.insert(groups.begin(), matrices);
    }
    tensors.put(codes, "U8", shape, packed);
    tensors.put("m.weight_scale", nv ? "F8_E4M3" : "U8", groups, scales);
    if (whole != nullptr) tensors.put(whole, "F32", {1}, std::vector<float>{0.25f});
    tensors.put("m.input_scale", "F32", {}, std::vector<float>{3});
  }
};

}  // namespace

TEST_CASE("4-bit floats keep their codes and scales") {
  Case cases[] = {
      {.whole = "m.weight_global_scale"}, {.codes = "m.weight", .whole = "m.weight_scale_2"},
      {.n = 3, .k = 64, .matrices = 4},   {.nv = false},
      {.nv = false, .n = 1, .k = 32},
  };
  for (Case& c : cases) {
    CAPTURE(c.codes);
    CAPTURE(c.nv);
    c.make();
    const Checkpoint checkpoint(c.tensors);
    const auto source = checkpoint.open();
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    CHECK((*source)->find("m.weight")->desc.type == (c.nv ? DType::nvfp4 : DType::mxfp4));
    CHECK((*source)->find("m.weight")->desc.shape[0] == c.k);
    CHECK(values_of(**source, "m.weight") == c.expected);
    CHECK((*source)->weights().size() == (c.whole == nullptr ? 1 : 2));
    if (c.whole == nullptr) continue;
    const bool divides = std::string(c.whole).ends_with("global_scale");
    CHECK(values_of(**source, "m.scale") == std::vector<float>{divides ? 4.0f : 0.25f});
  }
}

TEST_CASE("4-bit floats whose parts do not fit are refused by name") {
  const auto bytes = [](const char* name, const char* type, std::vector<int64_t> shape,
                        char value) {
    return [=](RawSafetensors& t) {
      size_t count = 1;
      for (const int64_t side : shape) count *= static_cast<size_t>(side);
      t.put(name, type, shape, std::string(count, value));
    };
  };
  const auto whole = [](float value) {
    return [=](RawSafetensors& t) {
      t.put("m.weight_global_scale", "F32", {1}, std::vector<float>{value});
    };
  };
  struct Bad {
    std::function<void(RawSafetensors&)> change;
    const char* why;
    StatusCode code = StatusCode::bad_file;
  };
  const Bad cases[] = {
      {bytes("m.weight_scale", "F8_E4M3", {5, 11}, 1), "a scale for 16 columns of 5 rows"},
      {bytes("m.weight_scale", "F8_E4M3", {4, 12}, 1), "a scale for 16 columns of 5 rows"},
      {bytes("m.weight_scale", "U8", {5, 12}, 1), "a scale for 32 columns of 5 rows"},
      {bytes("m.weight_packed", "U8", {5, 80}, 1), "rows of 160 4-bit floats",
       StatusCode::unsupported},
      {whole(0), "expected a positive scale, found 0"},
      {whole(-2), "expected a positive scale, found -2"},
      {whole(std::nanf("")), "expected a positive scale, found nan"},
  };
  for (const Bad& bad : cases) {
    Case good;
    good.make();
    bad.change(good.tensors);
    refused(good.tensors, bad.why, bad.code);
  }
  for (const char scale : {'\x7f', '\x81'}) {  // NaN, and a negative one
    Case good;
    good.make();
    bytes("m.weight_scale", "F8_E4M3", {5, 12}, scale)(good.tensors);
    const Checkpoint checkpoint(good.tensors);
    const auto source = checkpoint.open();
    REQUIRE(source.has_value());
    const Weight* weight = (*source)->find("m.weight");
    std::vector<std::byte> read(static_cast<size_t>(weight->desc.extent_bytes()));
    const Status status = (*source)->read(weight->place, 0, read);
    CHECK(status.code() == StatusCode::bad_file);
    CHECK(status.message().find("expected positive scales") != std::string::npos);
  }
}
