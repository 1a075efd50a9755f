// Products of 16 bits for tokens of prompts, of weights that have them and of
// decoded ones: against a plain computation, and the bits of a column by the
// number of columns, the size of blocks, roles and orders of threads.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "engine/core/checked.h"
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

constexpr DType kTypes[] = {DType::f16,  DType::bf16, DType::q4_0,   DType::q4_1,  DType::q5_0,
                            DType::q5_1, DType::q8_0, DType::q2_k,   DType::q3_k,  DType::q4_k,
                            DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};
/// One of each layout of kernels.
constexpr DType kSomeTypes[] = {DType::f16,  DType::bf16, DType::q8_0,
                                DType::q5_1, DType::q4_k, DType::q6_k};

bool decoded(DType type) { return type != DType::f16 && type != DType::bf16; }
/// Activations have 22 bits as two of float16, 16 as two of bfloat16; one has
/// 11, as have decoded weights, their scales and offsets.
double limit_of(DType type) { return decoded(type) ? 2e-6 : type == DType::f16 ? 1e-12 : 1e-10; }
/// The nearest K that a type can have, from k on.
int64_t k_of(DType type, int64_t k) {
  return round_up<int64_t>(k, dtype_info(type).block_elements);
}

/// A GPU that decodes quantised weights for prompts, with products by
/// warpgroups.
TestGpu decoding_gpu() { return {.capability = 90, .shared_bytes = 227 << 10}; }
/// One with those of warps.
TestGpu other_decoding_gpu() { return {.capability = 100, .shared_bytes = 227 << 10}; }

void check_products(const TestGpu& gpu, std::span<const DType> types) {
  const Gpus gpus(std::vector{gpu});
  for (const DType type : types) {
    CAPTURE(dtype_info(type).ident);
    for (const Shape& wanted : {Shape{32, 5, 1}, Shape{40, 33, 3}, Shape{608, 150, 131},
                                Shape{8416, 5, 2}, Shape{16640, 3, 2}}) {
      const Shape of{k_of(type, wanted.k), wanted.n, wanted.rows};
      CAPTURE(of.k);
      const Product product(type, of);
      const std::vector<float> y = product.compute(Roles::prompt);
      CHECK(product.error(y) < limit_of(type));
      const std::vector<float> generated = product.compute(Roles::generated);
      CHECK(product.error(generated) < (decoded(type) ? 1e-3 : 1e-11));
      CHECK(y != generated);  // not the same kernels
      for (const int64_t rows : {1, 2, 33, 65}) {
        if (rows >= of.rows) continue;
        CAPTURE(rows);
        CHECK(begins_with(y, Product(type, {of.k, of.n, rows}).compute(Roles::prompt)));
      }
    }
  }
}

TEST_CASE(
    "products of prompts: near to plain ones, and columns do not depend "
    "on others") {
  check_products(decoding_gpu(), kTypes);
  check_products(other_decoding_gpu(), kSomeTypes);
}

/// The kernel of weights that a prompt's product is computed by.
std::string kernel_of(const Product& product) {
  (void)product.compute(Roles::prompt);
  for (const auto& [name, count] : test::cuda_driver().last_graph().by_kernel) {
    if (name.find("_tile_") != std::string::npos) return name;
  }
  return {};
}

TEST_CASE("products of prompts: neither blocks nor orders of threads change a bit") {
  for (TestGpu gpu : {decoding_gpu(), other_decoding_gpu()}) {
    const bool warpgroups = gpu.capability == 90;
    for (const DType type : kSomeTypes) {
      CAPTURE(dtype_info(type).ident);
      const Product product(type, {k_of(type, 160), 290, 140});
      gpu.multiprocessors = 1;
      const Gpus usual(std::vector{gpu});
      const std::vector<float> large = product.compute(Roles::prompt);
      std::set<std::string> kernels;
      for (const int multiprocessors : {1, 6, 15, 1000}) {
        gpu.multiprocessors = multiprocessors;
        const Gpus gpus(std::vector{gpu});
        kernels.insert(kernel_of(product));
        for (const uint64_t seed : {1, 2}) {
          test::cuda_driver().set_seed(seed);
          CHECK(begins_with(product.compute(Roles::prompt), large));
        }
      }
      CHECK(kernels.size() == (warpgroups && decoded(type) ? 3 : 2));
      const bool by_warpgroups = kernels.begin()->starts_with("warpgroup_tile_");
      CHECK(by_warpgroups == (warpgroups && decoded(type)));
    }
  }
  test::cuda_driver().set_seed(0);
}

TEST_CASE(
    "products of prompts: code for all of compute capability 9.0 has "
    "tiles of warps") {
  const Product product(DType::q4_0, {64, 20, 5});
  TestGpu gpu = decoding_gpu();
  for (const int code : {75, 90}) {
    gpu.code = code;
    const Gpus gpus(std::vector{gpu});
    CHECK(kernel_of(product).starts_with("decoded_tile_q4_0"));
  }
  const Gpus gpus(std::vector{decoding_gpu()});
  CHECK(kernel_of(product).starts_with("warpgroup_tile_q4_0"));
}

TEST_CASE("products of prompts: rows of both roles in a step") {
  const Gpus gpus(std::vector{decoding_gpu()});
  for (const DType type : kSomeTypes) {
    CAPTURE(dtype_info(type).ident);
    constexpr int64_t kRows = 20;
    constexpr int64_t kResults = 37;
    const Product product(type, {k_of(type, 64), kResults, kRows});
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
  const Gpus gpus(std::vector{decoding_gpu()});
  for (const DType type : kSomeTypes) {
    CAPTURE(dtype_info(type).ident);
    for (const float scale : {1e30f, 1e-30f, 0.0f}) {
      CAPTURE(scale);
      const Product product(type, {k_of(type, 64), 20, 5}, scale);
      const std::vector<float> y = product.compute(Roles::prompt);
      CHECK(product.error(y) < limit_of(type));
    }
  }
}

TEST_CASE("products of prompts are as others with --exact, and some on other GPUs") {
  const Product quantised(DType::q4_0, {64, 20, 5});
  CHECK(quantised.compute(Roles::prompt) != quantised.compute(Roles::generated));
  for (const int capability : {75, 86, 89, 120}) {
    const Gpus gpus(std::vector{TestGpu{.capability = capability}});
    CHECK(quantised.compute(Roles::prompt) == quantised.compute(Roles::generated));
  }
  const Product half(DType::f16, {64, 20, 5});
  const Product brain(DType::bf16, {64, 20, 5});
  const auto exact = CudaDevice::open(0, true, {}).value();
  CHECK_FALSE(exact->two_classes());
  for (const Product* product : {&half, &quantised}) {
    CHECK(product->compute(*exact, Roles::prompt) == product->compute(*exact, Roles::generated));
  }
  const Gpus gpus(std::vector{TestGpu{.capability = 75}});
  CHECK(brain.compute(Roles::prompt) == brain.compute(Roles::generated));
  CHECK(half.compute(Roles::prompt) != half.compute(Roles::generated));
}

/// A norm, and of it products: gate and up, activation, down, sum with the
/// residual; then those of three weights.
std::vector<float> block_of_model(DType type, int64_t rows, bool fuse) {
  constexpr int64_t kWidth = 256;
  OpCase c;
  c.rows = rows;
  CaseBuilder builder(c, 11);
  GraphBuilder& graph = builder.graph();
  const ValueId norm = builder.weight(DType::f32, kWidth);
  std::vector<ValueId> weights;  // before the activations: they do not depend on the rows
  for (const int64_t n : {kWidth, kWidth, kWidth, int64_t{72}, int64_t{72}, int64_t{72}}) {
    weights.push_back(builder.weight(type, kWidth, n));
  }
  const ValueId x = builder.activations(kWidth, 1, 3.0f);
  const ValueId normed = graph.add(op::RmsNorm(), {x, norm});
  const auto product = [&](ValueId of, size_t weight) {
    return graph.add(op::Matmul(), {of, weights[weight], kNoValue, kNoValue});
  };
  const ValueId gate = product(normed, 0);
  const ValueId up = product(normed, 1);
  const ValueId down = product(graph.add(op::Glu(), {gate, up}), 2);
  const ValueId sum = graph.add(op::Add{.scale = 0.5f}, {x, down});
  const ValueId again = graph.add(op::RmsNorm(), {sum, norm});
  const ValueId q = product(again, 3);
  const ValueId k = product(again, 4);
  const ValueId v = product(again, 5);
  const ValueId y = graph.add(op::Multiply(), {graph.add(op::Multiply(), {q, k}), v});
  graph.output(y);
  const Graph all = builder.finish().value();
  CudaOptions options;
  options.tuning = Tuning{.fuse = fuse};
  const auto device = CudaDevice::open(0, false, options).value();
  return test::computed(*device, all, y, rows, builder.weights(), builder.inputs(), Roles::prompt);
}

TEST_CASE("products of prompts: what is fused with them changes no bit") {
  for (TestGpu gpu : {decoding_gpu(), other_decoding_gpu()}) {
    for (const DType type : {DType::q4_k, DType::q8_0}) {
      CAPTURE(dtype_info(type).ident);
      const Gpus usual(std::vector{gpu});
      const std::vector<float> apart = block_of_model(type, 70, false);
      for (const int multiprocessors : {1, 3, 6, 1000}) {
        CAPTURE(multiprocessors);
        gpu.multiprocessors = multiprocessors;
        const Gpus gpus(std::vector{gpu});
        CHECK(begins_with(block_of_model(type, 70, true), apart));
        const auto& kernels = test::cuda_driver().last_graph().by_kernel;
        CHECK(std::ranges::any_of(kernels, [](const auto& kernel) {
          return kernel.first.find("_tile_") != std::string::npos && kernel.first.ends_with("_glu");
        }));
        CHECK(begins_with(apart, block_of_model(type, 9, true)));
      }
    }
  }
}

/// Runs without each barrier of a kernel in turn; each has to be missed.
/// Returns how many there are.
int barriers_of(const std::string& kernel, const Product& product) {
  std::ifstream in(INFER_SOURCE_DIR "/backends/cuda/weights/" + kernel + ".cu");
  std::string text;
  std::string found;
  test::cuda_driver().set_listener([&](const std::string& mistake) { found = mistake; });
  int barriers = 0;
  for (int line = 1; std::getline(in, text); ++line) {
    if (text.find(" sync_block();") == std::string::npos) continue;
    ++barriers;
    found.clear();
    test::cuda_driver().leave_out(kernel, line);
    CAPTURE(line);
    CHECK_FALSE(product.runs());
    CHECK(found.find(kernel) != std::string::npos);
  }
  test::cuda_driver().leave_out("", 0);
  test::restart_cuda_driver();
  return barriers;
}

TEST_CASE("products of prompts: no barrier can be left out") {
  const Gpus gpus(std::vector{decoding_gpu()});
  CHECK(barriers_of("half_tile", Product(DType::f16, {320, 64, 32})) == 1);
  // One stage more than there are places for: the results take the place of the
  // last one.
  CHECK(barriers_of("warpgroup_tile", Product(DType::q4_0, {960, 64, 32})) == 4);
  const Gpus others(std::vector{other_decoding_gpu()});
  CHECK(barriers_of("decoded_tile", Product(DType::q4_0, {320, 64, 32})) == 3);
}

}  // namespace
}  // namespace infer::cuda
