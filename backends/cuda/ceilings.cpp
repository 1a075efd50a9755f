#include "backends/cuda/ceilings.h"

#include <algorithm>

#include "backends/cuda/memory.h"
#include "backends/cuda/rate.h"

namespace infer::cuda {
namespace {

/// What launching takes is little beside this, in milliseconds.
constexpr double kEnough = 20;
constexpr uint32_t kMostRounds = 1 << 20;

/// Of ever more rounds, until they take long enough, the highest rate in 10⁹ a second; `amount`: of
/// one round.
template <typename Launch>
double best_rate(Context& context, double amount, uint32_t rounds, const Launch& launch) {
  Event start(context);
  Event end(context);
  if (!start.create(true).ok() || !end.create(true).ok()) return 0;
  double best = 0;
  for (;; rounds *= 2) {
    if (!start.record().ok() || launch(rounds) != CUDA_SUCCESS || !end.record().ok() ||
        !start.wait().ok() || !end.wait().ok()) {
      return 0;
    }
    const Result<double> milliseconds = end.milliseconds_since(start);
    if (!milliseconds || *milliseconds <= 0) return 0;
    best = std::max(best, amount * rounds / (*milliseconds * 1e6));
    if (*milliseconds >= kEnough || rounds >= kMostRounds) return best;
  }
}

/// The rate of a kernel whose blocks multiply and accumulate `macs` times in a round.
double kernel_rate(Context& context, Modules& modules, const char* name, double macs) {
  constexpr int kBlocksOfProcessor = 16;  // as many threads as it keeps
  const int64_t blocks = int64_t{context.gpu().multiprocessors} * kBlocksOfProcessor;
  const auto results = RawBuffer::create(context, blocks * kRateThreads * int64_t{sizeof(float)});
  const Result<CUfunction> kernel = modules.get(name, 0);
  if (!results || !kernel) return 0;
  const auto launch = [&](uint32_t rounds) {
    RateParams params{(*results)->address(), rounds, 0};
    void* all[] = {&params};
    return context.cu().cuLaunchKernel(*kernel, static_cast<unsigned>(blocks), 1, 1, kRateThreads,
                                       1, 1, 0, context.stream(), all, nullptr);
  };
  return best_rate(context, static_cast<double>(blocks) * macs, 16, launch);
}

}  // namespace

double measure_copy_bandwidth(Context& context) {
  if (!context.enter().ok()) return 0;
  int64_t bytes = int64_t{256} << 20;
  const auto allocate = [&] { return RawBuffer::create(context, bytes); };
  auto from = allocate();
  auto to = allocate();
  for (constexpr int64_t kLeast = int64_t{8} << 20; !from || !to;) {  // beside a model
    bytes /= 2;
    if (bytes < kLeast) return 0;
    from = allocate();
    to = allocate();
  }
  const auto copy = [&](uint32_t rounds) {
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < rounds && result == CUDA_SUCCESS; ++i) {
      result = context.cu().cuMemcpyDtoDAsync((*to)->address(), (*from)->address(),
                                              static_cast<size_t>(bytes), context.stream());
    }
    return result;
  };
  constexpr int kTries = 3;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    best = std::max(best, best_rate(context, 2.0 * static_cast<double>(bytes), 1, copy));
  }
  return best;
}

double measure_integer_rate(Context& context, Modules& modules) {
  constexpr int kMacs = 4;  // of an instruction
  return kernel_rate(context, modules, "int_rate", kRateThreads * kIntRateChains * kMacs);
}

double measure_matrix_rate(Context& context, Modules& modules) {
  if (modules.has_kernels("warpgroup_rate").value_or(false)) {
    constexpr int kMacsOfGroup = 64 * kWarpgroupRateColumns * 16;
    return kernel_rate(context, modules, "warpgroup_rate", kWarpgroupRateChains * kMacsOfGroup);
  }
  constexpr int kMacs = 16 * 8 * 16;  // of a warp's instruction
  return kernel_rate(context, modules, "matrix_rate",
                     kRateThreads / 32 * kMatrixRateChains * kMacs);
}

}  // namespace infer::cuda
