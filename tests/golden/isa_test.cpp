// The same bits on every instruction set of the CPU.
#include <doctest.h>

#include <cstring>

#include "engine/backend/device.h"
#include "tests/golden/golden.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Those that run here, the one that is chosen by itself first.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> found{""};
  for (const std::string& isa : open_device("cpu", {.threads = 1}).value()->info().isas) {
    if (open_device("cpu", {.threads = 1, .isa = isa})) found.push_back(isa);
  }
  REQUIRE(found.size() > 2);  // "scalar" and another one
  return found;
}

void expect_same_bits(const GoldenModel& model, EvaluateOptions options) {
  std::vector<float> first;
  for (const std::string& isa : instruction_sets()) {
    INFO(model.name << ", cache " << std::string(options.cache) << ", " << isa);
    options.load.isa = isa;
    const std::vector<float> logits = evaluate(model, options);
    if (first.empty()) first = logits;
    REQUIRE(logits.size() == first.size());
    CHECK(std::memcmp(logits.data(), first.data(), logits.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("instruction sets give the same bits") {
  for (const GoldenModel& model : golden_models()) {
    for (const bool exact : {false, true}) {
      EvaluateOptions options;
      options.load.exact = exact;
      expect_same_bits(model, options);
    }
  }
}

TEST_CASE("instruction sets give the same bits over every type of cache") {
  for (const GoldenModel& model : golden_models()) {
    // With a softcap, with windows and sinks, and plain with heads of whole blocks of 32.
    const bool blocks = model.name == "llama-q4_k";
    if (!blocks && model.name != "gemma2-f32" && model.name != "gpt-oss-mxfp4") continue;
    for (const char* cache : {"f16", "bf16", "q8_0", "q4_0"}) {
      if (!blocks && cache[0] == 'q') continue;
      EvaluateOptions options;
      options.cache = cache;
      expect_same_bits(model, options);
    }
  }
}
