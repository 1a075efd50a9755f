// libFuzzer: looks for templates whose cost is not charged to their budget.
//
// The input is a template. Its rendering has a small budget. Two things are compared with the units
// it was charged: the bytes it allocated, which are the same each time, and the processor time of
// this thread. Time is noisy: it is compared with that of a template whose work is known to be
// charged, measured just before and after, and only a time that stays far out of proportion in
// several runs counts. Without the sanitizer's allocator no bytes are counted.
#ifdef INFER_FUZZ
#include <sanitizer/allocator_interface.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/core/platform/processor.h"
#include "engine/text/template/interpreter.h"
#include "engine/text/template/parser.h"
#include "engine/text/template/variables.h"

namespace {

constexpr int64_t kUnits = 4'000'000;
// Units of the dearest kind take 4 to 5 times as long as those of kReference. What is not charged
// grows without bound, so that a wide margin finds it all the same.
constexpr double kTimes = 40;
// What a rendering may take besides, as units: it is not started for nothing.
constexpr int64_t kBegin = 500'000;
constexpr int kRuns = 4;
constexpr std::string_view kReference = "{% for i in range(50000) %}{{ i }}{% endfor %}";
// Texts are built in pieces and moved while they grow.
constexpr int64_t kBytesPerUnit = 16;
constexpr int64_t kBytes = 1 << 20;

constexpr std::string_view kVariables = R"({"messages": [{"role": "system", "content": "a b"},
  {"role": "user", "content": "\u20ac\n<x>"}, {"role": "assistant", "content": null,
  "tool_calls": [{"function": {"name": "f", "arguments": {"k": [1, 2.5, true]}}}]}],
  "tools": [{"type": "function", "function": {"name": "f"}}], "s": "text", "n": 7, "d": {"a": 1}})";

int64_t allocated = 0;

#ifdef INFER_FUZZ
void on_malloc(const volatile void*, size_t bytes) { allocated += static_cast<int64_t>(bytes); }
void on_free(const volatile void*) {}

void count_allocations() {
  static const int kInstalled = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (kInstalled == 0) std::abort();
}
#else
void count_allocations() {}
#endif

using infer::os::thread_seconds;

struct Cost {
  int64_t units;
  int64_t bytes;
  double seconds;
};

Cost rendered(const infer::jinja::Ast& ast) {
  const int64_t before = allocated;
  const double begin = thread_seconds();
  int64_t units = 0;
  {
    infer::jinja::Interpreter interpreter(ast, 0, kUnits);
    const auto variables = infer::jinja::read_variables(interpreter.budget(), kVariables);
    if (!variables) std::abort();
    const auto text = interpreter.run(*variables);
    if (!text && text.error().message().empty()) std::abort();
    units = interpreter.budget().units();
  }
  return {std::min(units, kUnits), allocated - before, thread_seconds() - begin};
}

/// Seconds of this thread that a unit of kReference takes now.
double reference_time() {
  static const auto kAst = infer::jinja::parse(kReference);
  if (!kAst) std::abort();
  const Cost cost = rendered(**kAst);
  return cost.seconds / static_cast<double>(cost.units);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  count_allocations();
  const auto ast = infer::jinja::parse({reinterpret_cast<const char*>(data), size});
  if (!ast) {
    if (ast.error().message().empty()) std::abort();
    return 0;
  }
  static const double kUsual = std::min(reference_time(), reference_time());
  const Cost cost = rendered(**ast);
  double times = cost.seconds / (kUsual * static_cast<double>(cost.units + kBegin));
  for (int run = 0; run < kRuns && times > kTimes; ++run) {
    double usual = reference_time();
    const Cost again = rendered(**ast);
    usual = std::max(usual, reference_time());
    times = std::min(times, again.seconds / (usual * static_cast<double>(cost.units + kBegin)));
  }
  if (times > kTimes || cost.bytes > kBytes + kBytesPerUnit * cost.units) {
    std::fprintf(stderr,
                 "%lld units were charged for %lld bytes and %.3f s, %.0f times the usual\n",
                 static_cast<long long>(cost.units), static_cast<long long>(cost.bytes),
                 cost.seconds, times);
    std::abort();
  }
  return 0;
}
