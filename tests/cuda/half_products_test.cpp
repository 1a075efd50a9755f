// Products of weights of 16 bits for tokens of prompts: against a plain computation, and the bits
// of a column by the number of columns, the size of blocks, roles and orders of threads.
#include <doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "engine/core/half.h"
#include "engine/quant/quant.h"
#include "tests/cuda/gpus.h"
#include "tests/one_node.h"

namespace infer::cuda {
namespace {

using infer::test::Gpus;
using infer::test::TestGpu;

struct Shape {
  int64_t k, n, rows;
};

/// A product with a bias.
class Product {
 public:
  Product(DType type, Shape shape, float scale = 1.0f) : type_(type), shape_(shape) {
    case_.rows = shape.rows;
    CaseBuilder builder(case_, 7);
    const ValueId w = builder.weight(type, shape.k, shape.n);
    const ValueId bias = builder.weight(DType::f32, shape.n);
    const ValueId x = builder.activations(shape.k, 1, scale);
    y_ = builder.graph().add(op::Matmul(), {x, w, bias, kNoValue});
    builder.graph().output(y_);
    graph_ = std::make_unique<Graph>(builder.finish().value());
    weights_ = builder.weights();
    inputs_ = builder.inputs();
  }

  std::vector<float> compute(Device& device, Roles roles, int64_t generated = 0) const {
    return test::computed(device, *graph_, y_, shape_.rows, weights_, inputs_, roles, generated);
  }
  std::vector<float> compute(Roles roles, int64_t generated = 0) const {
    return compute(*CudaDevice::open(0, false, {}).value(), roles, generated);
  }

  /// Whether a run for a prompt succeeds.
  bool runs() const {
    const auto device = CudaDevice::open(0, false, {}).value();
    return test::run_of(*device, *graph_, y_, shape_.rows, weights_, inputs_, Roles::prompt)
        .has_value();
  }

  /// Squared, of the results' squares.
  double error(const std::vector<float>& found) const {
    std::vector<float> w(static_cast<size_t>(shape_.k * shape_.n));
    quant_traits(type_).decode(weights_[0].data(), w.data(), shape_.k * shape_.n);
    const auto* bias = reinterpret_cast<const float*>(weights_[1].data());
    const auto* x = reinterpret_cast<const float*>(inputs_[0].data());
    double error = 0;
    double power = 0;
    for (int64_t r = 0; r < shape_.rows; ++r) {
      for (int64_t n = 0; n < shape_.n; ++n) {
        double sum = bias[n];
        for (int64_t i = 0; i < shape_.k; ++i) {
          sum += double{w[static_cast<size_t>(n * shape_.k + i)]} * double{x[r * shape_.k + i]};
        }
        const double wrong = found[static_cast<size_t>(r * shape_.n + n)] - sum;
        error += wrong * wrong;
        power += sum * sum;
      }
    }
    return error / power;
  }

 private:
  DType type_;
  Shape shape_;
  OpCase case_;
  ValueId y_ = kNoValue;
  std::unique_ptr<Graph> graph_;
  std::vector<std::vector<std::byte>> weights_, inputs_;
};

bool begins_with(const std::vector<float>& all, const std::vector<float>& first) {
  return all.size() >= first.size() &&
         std::memcmp(all.data(), first.data(), first.size() * sizeof(float)) == 0;
}

/// Activations have 22 bits as two of float16, 16 as two of bfloat16.
double limit_of(DType type) { return type == DType::f16 ? 1e-12 : 1e-10; }

constexpr DType kTypes[] = {DType::f16, DType::bf16};

TEST_CASE("products of prompts: near to plain ones, and columns do not depend on others") {
  for (const DType type : kTypes) {
    CAPTURE(dtype_info(type).ident);
    for (const Shape& of : {Shape{32, 5, 1}, Shape{40, 33, 3}, Shape{608, 150, 131}}) {
      CAPTURE(of.k);
      const Product product(type, of);
      const std::vector<float> y = product.compute(Roles::prompt);
      CHECK(product.error(y) < limit_of(type));
      const std::vector<float> generated = product.compute(Roles::generated);
      CHECK(product.error(generated) < 1e-12);
      CHECK(y != generated);  // not the same kernels
      for (const int64_t rows : {1, 2, 33, 65}) {
        if (rows >= of.rows) continue;
        CAPTURE(rows);
        CHECK(begins_with(y, Product(type, {of.k, of.n, rows}).compute(Roles::prompt)));
      }
    }
  }
}

TEST_CASE("products of prompts: neither blocks nor orders of threads change a bit") {
  for (const DType type : kTypes) {
    CAPTURE(dtype_info(type).ident);
    const Product product(type, {160, 290, 140});
    const std::vector<float> large = product.compute(Roles::prompt);
    for (const int multiprocessors : {1, 1000}) {
      const Gpus gpus(std::vector{TestGpu{.multiprocessors = multiprocessors}});
      for (const uint64_t seed : {1, 2}) {
        test::cuda_driver().set_seed(seed);
        CHECK(begins_with(product.compute(Roles::prompt), large));
      }
    }
  }
  test::cuda_driver().set_seed(0);
}

TEST_CASE("products of prompts: rows of both roles in a step") {
  for (const DType type : kTypes) {
    CAPTURE(dtype_info(type).ident);
    constexpr int64_t kRows = 20;
    constexpr int64_t kResults = 37;
    const Product product(type, {64, kResults, kRows});
    const std::vector<float> prompt = product.compute(Roles::prompt);
    const std::vector<float> generated = product.compute(Roles::generated);
    for (const int64_t count : {0, 1, 7, 20}) {
      CAPTURE(count);
      const std::vector<float> both = product.compute(Roles::both, count);
      const auto at = count * kResults;
      CHECK(begins_with(both, {generated.begin(), generated.begin() + at}));
      CHECK(begins_with({both.begin() + at, both.end()}, {prompt.begin() + at, prompt.end()}));
    }
  }
}

TEST_CASE("products of prompts: activations beyond float16") {
  for (const DType type : kTypes) {
    CAPTURE(dtype_info(type).ident);
    for (const float scale : {1e30f, 1e-30f, 0.0f}) {
      CAPTURE(scale);
      const Product product(type, {64, 20, 5}, scale);
      const std::vector<float> y = product.compute(Roles::prompt);
      CHECK(product.error(y) < limit_of(type));
    }
  }
}

TEST_CASE("products of prompts are as others with --exact, and of bfloat16 on older GPUs") {
  const Product half(DType::f16, {64, 20, 5});
  const Product brain(DType::bf16, {64, 20, 5});
  const auto exact = CudaDevice::open(0, true, {}).value();
  CHECK_FALSE(exact->two_classes());
  CHECK(half.compute(*exact, Roles::prompt) == half.compute(*exact, Roles::generated));
  const Gpus gpus(std::vector{TestGpu{.capability = 75}});
  CHECK(brain.compute(Roles::prompt) == brain.compute(Roles::generated));
  CHECK(half.compute(Roles::prompt) != half.compute(Roles::generated));
}

TEST_CASE("products of prompts: no barrier can be left out") {
  std::ifstream in(INFER_SOURCE_DIR "/backends/cuda/weights/half_tile.cu");
  std::string text;
  std::string found;
  const Product product(DType::f16, {320, 64, 32});
  test::cuda_driver().set_listener([&](const std::string& mistake) { found = mistake; });
  int barriers = 0;
  for (int line = 1; std::getline(in, text); ++line) {
    if (text.find(" sync_block();") == std::string::npos) continue;
    ++barriers;
    found.clear();
    test::cuda_driver().leave_out("half_tile", line);
    CHECK_FALSE(product.runs());
    CHECK(found.find("half_tile_f16") != std::string::npos);
  }
  CHECK(barriers == 1);
  test::cuda_driver().leave_out("", 0);
  test::restart_cuda_driver();
}

}  // namespace
}  // namespace infer::cuda
