// What a decode step of a known model costs on a GPU, counted: bytes to read, launches, and how
// many of them wait for another. tools/bench/cuda_decode.sh prints it.
#include <doctest.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "engine/exec/work.h"
#include "engine/plan/planner.h"
#include "tests/cuda/gpus.h"
#include "tests/cuda/shape_source.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Gpus;
using infer::test::GraphCounts;

struct Counts {
  GraphCounts graph;
  Work work;
};

/// Compiles the step of one token, whose memory nobody touches. `capability`: of the GPU, `code`:
/// that the kernels were compiled for.
Counts count_step(const std::string& shape, const std::string& type, int64_t context,
                  int capability = 89, int code = 0) {
  const Gpus gpus({{.capability = capability,
                    .code = code,
                    .memory = int64_t{80} << 30,
                    .multiprocessors = 128,
                    .virtual_memory = true,
                    .untouched = true}});
  const infer::test::ShapeSource source(shape, type);
  const auto model = read_model(source).value();
  const WeightTable weights(source);
  const auto device = CudaDevice::open(0, false).value();
  Device* const devices[] = {device.get()};
  const Graph graph = build_graph(*model, weights, 1, 1, DType::f16, DType::f16).value();
  const std::vector<PlacedSegment> segments =
      placed_segments(graph, {}, false, roles_of_programs(devices).front());
  REQUIRE(segments.size() == 1);
  const StepMemory planned = plan_step(graph, segments, devices);
  std::vector<std::unique_ptr<Buffer>> kept;
  const auto allocate = [&](int64_t bytes) {
    auto made = device->alloc(std::max<int64_t>(bytes, 1), Purpose::activations);
    REQUIRE_MESSAGE(made.has_value(), made.error().message());
    return kept.emplace_back(*std::move(made)).get();
  };
  Buffer* const arena = allocate(planned.devices[0].arena.bytes);
  std::vector<MemoryRef> memory(graph.values().size());
  for (size_t i = 0; i < memory.size(); ++i) {
    const Value& value = graph.value(static_cast<ValueId>(i));
    if (value.kind == Value::Kind::weight &&
        graph.storage(static_cast<ValueId>(i)) == static_cast<ValueId>(i)) {
      memory[i] = {allocate(device->packed_bytes(weights.weight(value.index).desc)), 0};
    } else if (planned.devices[0].arena.offsets[i] >= 0) {
      memory[i] = {arena, planned.devices[0].arena.offsets[i]};
    }
  }
  const MemoryRef scratch{allocate(planned.devices[0].scratch), 0};
  const auto program = device->compile({segments[0].segment, memory, scratch, false});
  REQUIRE_MESSAGE(program.has_value(), program.error().message());
  Counts counts;
  counts.graph = cuda_driver().last_graph();
  counts.work = step_work(graph, {{{context - 1, 1}}, 1});
  return counts;
}

void print_row(const char* gpu, double bandwidth_gb_s, const Counts& counts) {
  const double reading = counts.work.bytes() / (bandwidth_gb_s * 1e3);  // µs
  fmt::print("| {} | {:.0f} | {:.2f} | {:.0f} | {:.0f} |\n", gpu, bandwidth_gb_s, reading / 1e3,
             1e6 / reading, 1e6 / (reading + counts.graph.depth));
}

TEST_CASE("counts: a decode step of llama-3.1-8b in Q4_K_M") {
  constexpr int64_t kContext = 512;
  const Counts counts = count_step("llama-3.1-8b", "q4_k_m", kContext);
  const GraphCounts& graph = counts.graph;
  fmt::print("llama-3.1-8b Q4_K_M, a token at a context of {} tokens, cache of float16\n",
             kContext);
  fmt::print("bytes: {:.3f} GB of weights, {:.3f} GB of the cache, {:.3f} GB of the rest\n",
             counts.work.weight_bytes * 1e-9, counts.work.cache_bytes * 1e-9,
             counts.work.activation_bytes * 1e-9);
  fmt::print("launches: {}, copies: {}; longest chain of launches: {}\n\n", graph.kernels,
             graph.copies, graph.depth);
  fmt::print("| kernel | launches |\n|---|---|\n");
  for (const auto& [kernel, launches] : graph.by_kernel) {
    fmt::print("| {} | {} |\n", kernel, launches);
  }
  fmt::print(
      "\n| GPU | GB/s | ms of reading | tokens/s at most | with 1 µs for each launch of the chain "
      "|\n"
      "|---|---|---|---|---|\n");
  print_row("RTX 4090", 1008, counts);
  print_row("H100 SXM", 3352, counts);

  // By hand, of the published sizes: 4096 wide, 32 layers, 8 of 32 heads with keys of 128, 14336
  // in the middle, 128256 tokens. Q4_K has 144 bytes for 256 weights, Q6_K 210. Half of the
  // layers' values and down projections have Q6_K, and so has the output.
  const double kq4 = 144.0 / 256;
  const double kq6 = 210.0 / 256;
  const double wide = 4096;
  const double half = (kq4 + kq6) / 2;
  const double layer = wide * wide * 2 * kq4 + wide * 1024 * (kq4 + half) +
                       wide * 14336 * (2 * kq4 + half) + 2 * wide * 4;
  const double bytes = 32 * layer + wide * 128256 * kq6 + wide * 4 + wide * kq4;
  CHECK(counts.work.weight_bytes == doctest::Approx(bytes).epsilon(0.001));
  const double cache = 32.0 * kContext * 2 * 1024 * 2;
  CHECK(counts.work.cache_bytes == doctest::Approx(cache).epsilon(0.001));
  CHECK(graph.copies == 2);
  // A layer: q/k/v (values of Q6_K apart, in half of the layers), attention with rope and store,
  // the output of attention, gate/up with the activation, down. Beside them the embedding, two
  // selections of rows, a sum and a norm before the output, and the output.
  CHECK(graph.kernels <= 32 * 5 + 16 + 6);
  CHECK(graph.depth <= graph.kernels);
  CHECK(graph.depth > 32 * 4);
  CHECK(cuda_driver().live() == 0);
}

TEST_CASE("counts: kernels of a chain begin early, if their code waits by itself") {
  const GraphCounts graph = count_step("smollm2-135m", "q4_0", 512, 90).graph;
  CHECK(graph.early > graph.kernels * 3 / 4);
  CHECK(graph.early < graph.kernels);  // the first ones follow copies
  CHECK(count_step("smollm2-135m", "q4_0", 512, 89).graph.early == 0);
  CHECK(count_step("smollm2-135m", "q4_0", 512, 90, 75).graph.early == 0);
}

}  // namespace
}  // namespace infer::cuda
