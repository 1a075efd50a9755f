// Products against a plain computation, and the bits of a column by the number of columns, by what
// is fused, and under several orders of threads and kernels.
#include <doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/fusion.h"
#include "backends/cuda/packing.h"
#include "backends/cuda/rounded_values.h"
#include "engine/core/half.h"
#include "engine/quant/quant.h"
#include "tests/cuda/gpus.h"
#include "tests/one_node.h"
#include "tests/support.h"

namespace infer::cuda {
namespace {

std::unique_ptr<Device> opened(bool exact = false, bool fuse = true) {
  Tuning tuning;
  tuning.integer = !exact;
  tuning.fuse = fuse;
  return CudaDevice::open(0, exact, {.tuning = tuning}).value();
}

OpCase rows_of(int64_t rows) {
  OpCase c;
  c.rows = rows;
  return c;
}

/// The types with kernels on tensor cores.
std::vector<DType> fragment_types() {
  std::vector<DType> types;
  for (const DTypeInfo& info : all_dtypes()) {
    if (has_fragments(info.type)) types.push_back(info.type);
  }
  return types;
}

struct Product {
  int64_t k, n, rows;
};

/// Graphs draw their weights and activations from a seed: columns of fewer rows are the first of
/// more.
std::vector<float> product(Device& device, DType type, const Product& of) {
  const OpCase c = rows_of(of.rows);
  CaseBuilder builder(c, 7);
  const ValueId w = builder.weight(type, of.k, of.n);
  const ValueId x = builder.activations(of.k);
  const ValueId y = builder.graph().add(op::Matmul(), {x, w, kNoValue, kNoValue});
  return test::computed(device, builder, y, of.rows);
}

/// The same in double, of activations that are rounded as the kernels do it.
std::vector<double> plain_product(DType type, const Product& of) {
  const OpCase c = rows_of(of.rows);
  CaseBuilder builder(c, 7);
  builder.weight(type, of.k, of.n);
  builder.activations(of.k);
  std::vector<float> w(static_cast<size_t>(of.k * of.n));
  quant_traits(type).decode(builder.weights()[0].data(), w.data(), of.k * of.n);
  std::vector<float> x(static_cast<size_t>(of.k * of.rows));
  std::memcpy(x.data(), builder.inputs()[0].data(), x.size() * sizeof(float));
  std::vector<double> rounded(x.size());
  for (int64_t r = 0; r < of.rows; ++r) {
    for (int64_t i = 0; i < of.k; i += 32) {
      const int64_t end = std::min(i + 32, of.k);
      float most = 0;
      for (int64_t j = i; j < end; ++j) {
        most = std::max(most, std::fabs(x[static_cast<size_t>(r * of.k + j)]));
      }
      const double scale = double{most} / 127;
      for (int64_t j = i; j < end; ++j) {
        const auto at = static_cast<size_t>(r * of.k + j);
        rounded[at] = most == 0 ? 0 : std::nearbyint(x[at] * (127.0f / most)) * scale;
      }
    }
  }
  std::vector<double> y;
  for (int64_t r = 0; r < of.rows; ++r) {
    for (int64_t row = 0; row < of.n; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < of.k; ++i) {
        sum += double{w[static_cast<size_t>(row * of.k + i)]} *
               rounded[static_cast<size_t>(r * of.k + i)];
      }
      y.push_back(sum);
    }
  }
  return y;
}

double squared_error(const std::vector<float>& x, const std::vector<double>& ref) {
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (x[i] - ref[i]) * (x[i] - ref[i]);
    power += ref[i] * ref[i];
  }
  return error / power;
}

bool equal(const std::vector<float>& a, const std::vector<float>& b, size_t count) {
  return a.size() >= count && b.size() >= count &&
         std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0;
}

TEST_CASE("products are those of rounded activations, and columns do not depend on others") {
  const auto device = opened();
  for (const DType type : fragment_types()) {
    CAPTURE(dtype_info(type).ident);
    const int64_t block = dtype_info(type).block_elements;
    // Several chunks of activations for 8 columns; stretches of K that are not full; one block.
    for (const Product& of : {Product{block * (block == 256 ? 19 : 72), 21, 8},
                              Product{block, 5, 1}, Product{block * 11, 33, 33}}) {
      CAPTURE(of.k);
      const std::vector<float> y = product(*device, type, of);
      // NF4's and FP4's levels have 15 bits.
      const bool finer = type != DType::nf4 && type != DType::fp4;
      CHECK(squared_error(y, plain_product(type, of)) < (finer ? 1e-11 : 1e-8));
      for (const int64_t rows : {1, 2, 3, 9}) {
        if (rows >= of.rows) continue;
        CAPTURE(rows);
        const std::vector<float> fewer = product(*device, type, {of.k, of.n, rows});
        CHECK(equal(fewer, y, static_cast<size_t>(rows * of.n)));
      }
    }
  }
}

TEST_CASE("no order of threads or kernels changes a bit of a product") {
  for (const DType type : {DType::q4_0, DType::q4_k, DType::q6_k, DType::f16}) {
    CAPTURE(dtype_info(type).ident);
    for (const bool exact : {false, true}) {
      std::vector<float> first;
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        test::cuda_driver().set_seed(seed);
        const std::vector<float> y = product(*opened(exact), type, {768, 40, 3});
        if (seed == 1) first = y;
        CHECK(equal(y, first, first.size()));
      }
    }
  }
  test::cuda_driver().set_seed(0);
}

TEST_CASE("exact products keep their activations") {
  const auto device = opened(true);
  for (const DType type : fragment_types()) {
    CAPTURE(dtype_info(type).ident);
    const Product of{dtype_info(type).block_elements * 9, 19, 5};
    const OpCase c = rows_of(of.rows);
    CaseBuilder builder(c, 7);
    builder.weight(type, of.k, of.n);
    builder.activations(of.k);
    std::vector<float> w(static_cast<size_t>(of.k * of.n));
    quant_traits(type).decode(builder.weights()[0].data(), w.data(), of.k * of.n);
    const auto* x = reinterpret_cast<const float*>(builder.inputs()[0].data());
    std::vector<double> plain;
    for (int64_t r = 0; r < of.rows; ++r) {
      for (int64_t row = 0; row < of.n; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < of.k; ++i) {
          sum += double{w[static_cast<size_t>(row * of.k + i)]} * double{x[r * of.k + i]};
        }
        plain.push_back(sum);
      }
    }
    const std::vector<float> y = product(*device, type, of);
    CHECK(squared_error(y, plain) < 1e-12);
    CHECK(equal(product(*device, type, {of.k, of.n, 1}), y, static_cast<size_t>(of.n)));
  }
}

/// A device that computes products of `tile_columns` columns and more by weights/tile.cu.
std::unique_ptr<Device> tiled(int64_t tile_columns) {
  Tuning tuning;
  tuning.tile_columns = tile_columns;
  return CudaDevice::open(0, false, {.tuning = tuning}).value();
}
constexpr int64_t kNever = int64_t{1} << 40;

/// More multiprocessors than there are large blocks: products take small ones.
constexpr int kMany = 1000;

/// Bits of many columns by tiles, by the kernel of few columns, and by tiles of more of them.
void check_tiles(DType type, int64_t k, int64_t n, std::initializer_list<int64_t> all_rows) {
  CAPTURE(k);
  CAPTURE(n);
  const int64_t most = std::max(all_rows);
  const std::vector<float> few = product(*tiled(kNever), type, {k, n, most});
  for (const int64_t rows : all_rows) {
    CAPTURE(rows);
    const std::vector<float> tiles = product(*tiled(1), type, {k, n, rows});
    CHECK(equal(tiles, few, static_cast<size_t>(rows * n)));
  }
}

TEST_CASE("products of many columns have the bits of few, whatever their number") {
  for (const DType type : fragment_types()) {
    CAPTURE(dtype_info(type).ident);
    const int64_t block = dtype_info(type).block_elements;
    check_tiles(type, block == 256 ? 768 : 64 * 3, 21, {2, 9, 65});
  }
  // Stretches of K that are not full, rows of several blocks, columns of several groups.
  check_tiles(DType::q4_k, 256 * 10, 70, {1, 3, 8, 33, 130});
  check_tiles(DType::q4_0, 32 * 37, 147, {8, 33, 130});
}

TEST_CASE("small blocks have the bits of large ones") {
  for (const DType type : {DType::q4_k, DType::q2_k, DType::q6_k, DType::q8_0, DType::nf4}) {
    CAPTURE(dtype_info(type).ident);
    const std::vector<float> few = product(*tiled(kNever), type, {768, 275, 67});
    const test::Gpus gpu(std::vector{test::TestGpu{.multiprocessors = kMany}});
    for (const uint64_t seed : {1, 2, 3}) {
      test::cuda_driver().set_seed(seed);
      CHECK(equal(product(*tiled(1), type, {768, 275, 67}), few, few.size()));
    }
  }
  test::cuda_driver().set_seed(0);
}

TEST_CASE("shared memory changes no bit") {
  for (const DType type : {DType::q4_k, DType::q6_k, DType::q8_0}) {
    CAPTURE(dtype_info(type).ident);
    for (const int64_t rows : {1, 3, 9, 67}) {
      CAPTURE(rows);
      const std::vector<float> expected = product(*tiled(64), type, {768, 275, rows});
      // Compute capability 7.5: too little for products of few columns of some types; 9.0: enough
      // for two blocks of many columns.
      for (const int kibibytes : {64, 227}) {
        const test::Gpus gpu(std::vector{test::TestGpu{.shared_bytes = kibibytes << 10}});
        CHECK(equal(product(*tiled(64), type, {768, 275, rows}), expected, expected.size()));
      }
    }
  }
}

TEST_CASE("rows that a GPU's shared memory has no room for are refused") {
  const test::Gpus gpus(std::vector{test::TestGpu{.shared_bytes = 64 << 10}});
  const auto device = opened();
  for (const int64_t k : {4096, 65536}) {
    CAPTURE(k);
    const OpCase c = rows_of(1);
    CaseBuilder builder(c, 7);
    const ValueId w = builder.weight(DType::q8_0, k, 3);
    const ValueId x = builder.activations(k);
    const ValueId y = builder.graph().add(op::Matmul(), {x, w, kNoValue, kNoValue});
    builder.graph().output(y);
    const Graph graph = builder.finish().value();
    const Status can = device->capability(graph, graph.nodes().front());
    CHECK(can.ok() == (k == 4096));
    if (can.ok()) continue;
    CHECK(can.code() == StatusCode::unsupported);
    CHECK(can.message().find("rows of 65536 elements of ") != std::string::npos);
  }
}

/// Products of experts of their gate and up, activation, and of their down with the places' inputs.
std::vector<float> experts(Device& device, DType type, int64_t rows) {
  const OpCase c = rows_of(rows);
  CaseBuilder builder(c, 13);
  GraphBuilder& graph = builder.graph();
  const ValueId gate = builder.weight(type, 256, 512, 5);
  const ValueId up = builder.weight(type, 256, 512, 5);
  const ValueId down = builder.weight(type, 512, 40, 5);
  const ValueId scale = builder.weight(DType::f32, 5);
  const ValueId x = builder.activations(256);
  const ValueId ids = builder.indices(3, 5);
  const ValueId g = graph.add(op::MoeMatmul(), {x, gate, ids, kNoValue, kNoValue});
  const ValueId u = graph.add(op::MoeMatmul(), {x, up, ids, kNoValue, kNoValue});
  const ValueId inner = graph.add(op::Glu(), {g, u});
  return test::computed(device, builder,
                        graph.add(op::MoeMatmul(), {inner, down, ids, kNoValue, scale}), rows);
}

TEST_CASE("experts of many columns have the bits of few") {
  for (const DType type : {DType::q4_k, DType::q4_0}) {
    CAPTURE(dtype_info(type).ident);
    const std::vector<float> few = experts(*tiled(kNever), type, 70);
    CHECK(equal(experts(*tiled(16), type, 70), few, few.size()));
    const test::Gpus gpu(std::vector{test::TestGpu{.multiprocessors = kMany}});
    CHECK(equal(experts(*tiled(16), type, 70), few, few.size()));
    const std::vector<float> of_nine = experts(*tiled(kNever), type, 9);
    CHECK(equal(experts(*tiled(1), type, 9), of_nine, of_nine.size()));
  }
}

/// A feed-forward block: norm, gate and up, activation, down, sum with the residual.
ValueId add_feed_forward(CaseBuilder& builder, DType type) {
  constexpr int64_t kWidth = 512;
  constexpr int64_t kInner = 768;
  GraphBuilder& graph = builder.graph();
  const ValueId norm = builder.weight(DType::f32, kWidth);
  const ValueId gate = builder.weight(type, kWidth, kInner);
  const ValueId up = builder.weight(type, kWidth, kInner);
  const ValueId down = builder.weight(type, kInner, kWidth);
  const ValueId bias = builder.weight(DType::f32, kInner);
  const ValueId x = builder.activations(kWidth, 1, 3.0f);
  const ValueId normed = graph.add(op::RmsNorm(), {x, norm});
  const ValueId g = graph.add(op::Matmul(), {normed, gate, bias, kNoValue});
  const ValueId u = graph.add(op::Matmul(), {normed, up, kNoValue, kNoValue});
  const ValueId inner = graph.add(op::Glu(), {g, u});
  const ValueId out = graph.add(op::Matmul(), {inner, down, kNoValue, kNoValue});
  const ValueId y = graph.add(op::Add{.scale = 0.5f}, {x, out});
  graph.output(y);
  return y;
}

std::vector<float> feed_forward(Device& device, DType type, int64_t rows,
                                Roles roles = Roles::generated) {
  const OpCase c = rows_of(rows);
  CaseBuilder builder(c, 11);
  const ValueId y = add_feed_forward(builder, type);
  const Graph all = builder.finish().value();
  return test::computed(device, all, y, rows, builder.weights(), builder.inputs(), roles);
}

TEST_CASE("what is fused with a product has the bits of what is not") {
  for (const DType type : {DType::q4_k, DType::q8_0, DType::nf4, DType::bf16}) {
    CAPTURE(dtype_info(type).ident);
    for (const bool exact : {false, true}) {
      CAPTURE(exact);
      const std::vector<float> apart = feed_forward(*opened(exact, false), type, 5);
      const int64_t before = test::cuda_driver().launches();
      const auto device = opened(exact, true);
      const std::vector<float> fused = feed_forward(*device, type, 5);
      const int64_t launched = test::cuda_driver().launches() - before;
      CHECK(launched < 6);
      CHECK(equal(fused, apart, apart.size()));
      for (const int64_t rows : {1, 2}) {  // those whose norm is fused too
        CHECK(equal(feed_forward(*device, type, rows), apart, static_cast<size_t>(rows * 512)));
      }
      if (exact) continue;
      for (const int64_t rows : {5, 20}) {  // by tiles: fused, and in steps of more rows
        CHECK(equal(feed_forward(*tiled(5), type, rows), apart, apart.size()));
      }
    }
  }
}

/// Whether the activation of a feed-forward block is stored as bytes.
bool rounds_activation(DType type, int64_t rows, Tuning tuning = {}) {
  const OpCase c = rows_of(rows);
  CaseBuilder builder(c, 11);
  (void)add_feed_forward(builder, type);
  const Graph graph = builder.finish().value();
  const Gpu gpu{.capability = 90};
  const Target target{gpu, tuning, cuda_ops()};
  const Segment segment{&graph, 0, static_cast<int32_t>(graph.nodes().size())};
  const std::vector<FusedCall> calls = plan_calls(segment, target);
  const RoundedValues rounded(segment, calls, target);
  int count = 0;
  for (const Node& node : graph.nodes()) {
    const Value& value = graph.value(node.outputs[0]);
    const bool is = rounded.bytes({&value, 256}).words != 0;
    CHECK((!is || node.op() == OpId::Glu));
    count += is ? 1 : 0;
  }
  return count == 1;
}

TEST_CASE("an activation is stored as bytes for one row, if nothing else wants it") {
  for (const DType type : {DType::q4_k, DType::q8_0, DType::q6_k}) {
    CHECK(rounds_activation(type, 1));
    CHECK_FALSE(rounds_activation(type, 2));
    CHECK_FALSE(rounds_activation(type, 1, {.fuse = false}));
    CHECK_FALSE(rounds_activation(type, 1, {.integer = false}));
  }
  CHECK_FALSE(rounds_activation(DType::bf16, 1));
}

TEST_CASE("what is fused with a product of decoded weights has the bits of what is not") {
  const test::Gpus gpu(std::vector{test::TestGpu{.capability = 90}});
  for (const DType type : {DType::q4_k, DType::q8_0}) {
    CAPTURE(dtype_info(type).ident);
    const std::vector<float> apart = feed_forward(*opened(false, false), type, 70, Roles::prompt);
    CHECK(feed_forward(*opened(), type, 70) != apart);  // not the kernels of generated tokens
    const int64_t before = test::cuda_driver().launches();
    CHECK(equal(feed_forward(*opened(), type, 70, Roles::prompt), apart, apart.size()));
    CHECK(test::cuda_driver().launches() - before < 6);
    CHECK(equal(feed_forward(*opened(), type, 3, Roles::prompt), apart, size_t{3 * 512}));
  }
}

}  // namespace
}  // namespace infer::cuda
