// Which axis of an image turns which pair of a head.
#include <doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "engine/model/hparams.h"
#include "engine/model/rope.h"
#include "engine/weights/weight_source.h"
#include "tests/formats/raw_gguf.h"
#include "tests/support.h"

namespace infer {
namespace {

using Sections = std::vector<int32_t>;

/// What read_axes() makes of a file with these sections; its status if it refuses them.
Result<RopeSpec> axes_of(int32_t pairs, const Sections* sections, bool interleaved) {
  test::RawGguf file;
  file.text("general.architecture", "seeing");
  if (sections != nullptr) {
    constexpr uint32_t kArray = 9;
    constexpr uint32_t kInt = 5;
    test::Bytes values;
    values.u32(kInt).u64(sections->size());
    for (const int32_t section : *sections) values.number(section);
    file.value("seeing.rope.dimension_sections", kArray, values);
  }
  file.tensor("x", {32}, 0, 0);
  file.data_bytes = 128;
  const test::TempDir folder;
  const std::string path = folder.path("model.gguf");
  const std::string bytes = file.bytes();
  test::write_bytes(path, test::bytes_of(bytes));
  const auto source = open_model(path);
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  HparamReader reader(**source);
  RopeSpec spec;
  spec.pairs = pairs;
  read_axes(reader, spec, interleaved);
  if (!reader.status().ok()) return tl::unexpected(reader.status());
  return spec;
}

std::vector<int> axes(int32_t pairs, const Sections& sections, bool interleaved) {
  const RopeSpec spec = axes_of(pairs, &sections, interleaved).value();
  std::vector<int> found;
  for (const auto& pair : spec.of_pairs) found.push_back(pair.axis);
  return found;
}

TEST_CASE("sections one after the other") {
  CHECK(axes(8, {3, 3, 2}, false) == std::vector{0, 0, 0, 1, 1, 1, 2, 2});
  CHECK(axes(8, {2, 1, 5, 0}, false) == std::vector{0, 0, 1, 2, 2, 2, 2, 2});
}

TEST_CASE("sections that alternate, as long as each lasts; the rest are of the text") {
  CHECK(axes(8, {4, 2, 2}, true) == std::vector{0, 1, 2, 0, 1, 2, 0, 0});
  CHECK(axes(9, {3, 3, 3, 0}, true) == std::vector{0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(axes(8, {5, 1, 2}, true) == std::vector{0, 1, 2, 0, 0, 2, 0, 0});
  // Qwen3-VL's own.
  const std::vector<int> own = axes(64, {24, 20, 20}, true);
  CHECK(std::ranges::count(own, 0) == 24);
  CHECK(std::ranges::count(own, 1) == 20);
  CHECK(std::ranges::count(own, 2) == 20);
  CHECK(own[59] == 2);
  CHECK(own[60] == 0);
}

TEST_CASE("files without sections turn all pairs with the text") {
  CHECK(axes_of(8, nullptr, true).value().of_pairs.empty());
  CHECK(axes(8, {0, 0, 0, 0}, true).empty());
  CHECK(axes(8, {0, 0, 0, 0}, false).empty());
}

TEST_CASE("sections that cannot be are refused by name") {
  for (const Sections& wrong : {Sections{4, 4}, Sections{8}, Sections{4, -1, 2}}) {
    const auto spec = axes_of(8, &wrong, true);
    REQUIRE(!spec.has_value());
    CHECK(spec.error().code() == StatusCode::bad_file);
    CHECK(spec.error().message().find("seeing.rope.dimension_sections") != std::string::npos);
  }
}

TEST_CASE("with equal positions on all axes every angle is that without sections, to the bit") {
  std::mt19937 random(5);
  for (const bool interleaved : {false, true}) {
    for (const bool yarn : {false, true}) {
      const Sections sections{4, 6, 6};
      RopeSpec spec = axes_of(16, &sections, interleaved).value();
      spec.base = 1e6;
      spec.magnitude = 1.25;
      spec.position_scale = 0.25;
      spec.yarn = yarn;
      spec.original_context = 2048;
      RopeSpec plain = spec;
      plain.of_pairs.clear();
      const RopeAngles with(spec, {});
      const RopeAngles without(plain, {});
      std::vector<float> one(32), other(32);
      for (int i = 0; i < 200; ++i) {
        const int32_t place = i < 20 ? i : static_cast<int32_t>(random() % 1000000);
        with.fill(place, one.data());
        without.fill(place, other.data());
        REQUIRE(one == other);
        with.fill({place, place, place}, one.data());
        REQUIRE(one == other);
      }
    }
  }
}

TEST_CASE("each pair turns with its own axis") {
  const Sections sections{4, 2, 2};
  const RopeSpec spec = axes_of(8, &sections, true).value();
  const RopeAngles angles(spec, {});
  std::vector<float> mixed(16), one(16);
  angles.fill({100, 7, 9}, mixed.data());
  for (size_t pair = 0; pair < 8; ++pair) {
    const int32_t place = std::array{100, 7, 9}[spec.of_pairs[pair].axis];
    angles.fill(place, one.data());
    CHECK(mixed[2 * pair] == one[2 * pair]);
    CHECK(mixed[2 * pair + 1] == one[2 * pair + 1]);
  }
}

}  // namespace
}  // namespace infer
