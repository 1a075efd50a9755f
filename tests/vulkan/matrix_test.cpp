// Products by cooperative matrices: values far beyond float16, and a class of their own that
// depends on nothing but a row's role.
#include <doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "backends/vulkan/pipelines.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

/// Values near 1, equal for equal seeds.
std::vector<float> values(size_t count, uint64_t seed) {
  std::vector<float> made;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    made.push_back(static_cast<float>(static_cast<int64_t>(seed >> 40) - (1 << 23)) * 0x1p-23f);
  }
  return made;
}

std::vector<std::byte> bytes_of(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

constexpr int64_t kDepth = 200;  // no whole steps
constexpr int64_t kResults = 70;
constexpr int64_t kRows = 41;

/// w [kDepth, kResults] of a type of single numbers, x [kDepth, kRows].
struct Product {
  DType type = DType::f32;
  std::vector<float> w = values(kDepth * kResults, 1);
  std::vector<float> x = values(kDepth * kRows, 2);

  std::vector<float> compute(Roles roles, int64_t generated = 0) {
    OpCase c;
    c.rows = kRows;
    CaseBuilder builder(c, 1);
    const ValueId y = builder.graph().add(
        op::Matmul{},
        {builder.activations(kDepth), builder.weight(type, kDepth, kResults), kNoValue, kNoValue});
    builder.graph().output(y);
    const Graph graph = builder.finish().value();
    std::vector<uint16_t> halves;
    if (type == DType::bf16) {
      for (float& value : w) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        halves.push_back(static_cast<uint16_t>(bits >> 16));
        bits &= 0xffff0000u;
        std::memcpy(&value, &bits, sizeof(bits));
      }
    }
    const Stored weights{type == DType::bf16 ? bytes_of(halves) : bytes_of(w)};
    const std::unique_ptr<Device> device = open_tuned(with_matrices({})).value();
    return computed(*device, graph, y, kRows, weights, {bytes_of(x)}, roles, generated);
  }

  /// The largest normalised squared error of a column, and of a row of weights.
  double error(const std::vector<float>& found) const {
    std::vector<double> wrong(kRows + kResults, 0), power(kRows + kResults, 0);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t n = 0; n < kResults; ++n) {
        double sum = 0;
        for (int64_t i = 0; i < kDepth; ++i) {
          sum += static_cast<double>(w[static_cast<size_t>(n * kDepth + i)]) *
                 static_cast<double>(x[static_cast<size_t>(r * kDepth + i)]);
        }
        // Rows and columns of other sizes do not hide each other.
        const double delta =
            static_cast<double>(found[static_cast<size_t>(r * kResults + n)]) - sum;
        const double size = magnitude(w, n) * magnitude(x, r);
        if (size == 0) continue;
        for (const int64_t i : {r, kRows + n}) {
          wrong[static_cast<size_t>(i)] += (delta / size) * (delta / size);
          power[static_cast<size_t>(i)] += (sum / size) * (sum / size);
        }
      }
    }
    double most = 0;
    for (size_t i = 0; i < wrong.size(); ++i) {
      if (wrong[i] > 0 || power[i] > 0) most = std::max(most, wrong[i] / power[i]);
      if (std::isnan(wrong[i])) return std::numeric_limits<double>::infinity();
    }
    return most;
  }

  static double magnitude(const std::vector<float>& of, int64_t row) {
    double most = 0;
    for (int64_t i = 0; i < kDepth; ++i) {
      most =
          std::max(most, std::abs(static_cast<double>(of[static_cast<size_t>(row * kDepth + i)])));
    }
    return most;
  }
};

void scale(std::vector<float>& of, int64_t row, float factor) {
  for (int64_t i = 0; i < kDepth; ++i) of[static_cast<size_t>(row * kDepth + i)] *= factor;
}

TEST_CASE("matrices: in every shader they have the types that they are meant to have") {
  constexpr uint32_t kTypeFloat = 22;     // OpTypeFloat: id, bits
  constexpr uint32_t kTypeMatrix = 4456;  // id, component, scope, rows, columns, use
  constexpr uint32_t kConstant = 43;      // OpConstant: type, id, value
  int found = 0;
  for (const Shader& shader : all_shaders()) {
    std::map<uint32_t, uint32_t> bits, constants;
    for (size_t at = 5; at < shader.code.size(); at += shader.code[at] >> 16) {
      REQUIRE((shader.code[at] >> 16) > 0);
      const uint32_t* words = &shader.code[at];
      const uint32_t op = words[0] & 0xffff;
      if (op == kTypeFloat) bits[words[1]] = words[2];
      if (op == kConstant) constants[words[2]] = words[3];
      if (op != kTypeMatrix) continue;
      INFO(shader.name);
      const uint32_t use = constants.at(words[6]);
      CHECK(bits.at(words[2]) == (use == 2 ? 32 : 16));
      CHECK(constants.at(words[3]) == 3);
      ++found;
    }
  }
  if (found == 0) test::skipped("vulkan: this build's compiler of shaders has no matrices");
}

TEST_CASE("matrices: activations far beyond float16, of each row by itself") {
  if (!has_matrices()) return;
  Product product;
  const float sizes[] = {1e6f, 1e-6f, 1e30f, 1e-30f, 1.0f, 0.0f, 65504.0f};
  for (int64_t r = 0; r < kRows; ++r) scale(product.x, r, sizes[static_cast<size_t>(r) % 7]);
  for (int64_t r = 0; r < kRows; r += 3) {  // and one of them much larger than the others
    product.x[static_cast<size_t>(r * kDepth + r)] *= 4000.0f;
  }
  const std::vector<float> found = product.compute(Roles::prompt);
  CHECK(product.error(found) <= 1e-6);
  // And they are not what the other class computes.
  CHECK(found != product.compute(Roles::generated));
}

TEST_CASE("matrices: weights far beyond float16, at the beginning of a row or later") {
  if (!has_matrices()) return;
  for (const DType type : {DType::f32, DType::bf16}) {
    Product product;
    product.type = type;
    const float sizes[] = {1.0f, 1e6f, 1e-6f, 1e25f, 1e-25f, 0.0f};
    for (int64_t n = 0; n < kResults; ++n) scale(product.w, n, sizes[static_cast<size_t>(n) % 6]);
    for (int64_t n = 0; n < kResults; n += 5) {  // growing along the row, twice
      for (int64_t i = 70; i < kDepth; ++i) {
        product.w[static_cast<size_t>(n * kDepth + i)] *= i < 130 ? 1e5f : 1e9f;
      }
    }
    CHECK(product.error(product.compute(Roles::prompt)) <= 1e-6);
  }
}

TEST_CASE("matrices: infinities and NaNs come through and stay in their rows") {
  if (!has_matrices()) return;
  Product product;
  const std::vector<float> before = product.compute(Roles::prompt);
  product.x[3 * kDepth + 5] = std::numeric_limits<float>::infinity();
  product.x[7 * kDepth + 199] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> found = product.compute(Roles::prompt);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t n = 0; n < kResults; ++n) {
      const auto i = static_cast<size_t>(r * kResults + n);
      if (r == 3) {
        CHECK(std::isinf(found[i]));
      } else if (r == 7) {
        CHECK(std::isnan(found[i]));
      } else {
        CHECK(found[i] == before[i]);
      }
    }
  }
}

TEST_CASE("matrices: a row's bits follow its role, wherever it lies in a step") {
  if (!has_matrices()) return;
  Product product;
  const std::vector<float> prompt = product.compute(Roles::prompt);
  const std::vector<float> generated = product.compute(Roles::generated);
  for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{17}, kRows - 1}) {
    const std::vector<float> both = product.compute(Roles::both, count);
    for (int64_t i = 0; i < kRows * kResults; ++i) {
      const auto at = static_cast<size_t>(i);
      CHECK(both[at] == (i < count * kResults ? generated[at] : prompt[at]));
    }
  }
  // The columns in another order.
  Product turned = product;
  for (int64_t r = 0; r < kRows; ++r) {
    std::copy_n(product.x.begin() + (kRows - 1 - r) * kDepth, kDepth,
                turned.x.begin() + r * kDepth);
  }
  const std::vector<float> found = turned.compute(Roles::prompt);
  for (int64_t r = 0; r < kRows; ++r) {
    CHECK(std::equal(found.begin() + r * kResults, found.begin() + (r + 1) * kResults,
                     prompt.begin() + (kRows - 1 - r) * kResults));
  }
}

}  // namespace
}  // namespace infer::vulkan
