#include <doctest.h>
#include <cstdio>
#include <cstdlib>
#include "tests/golden/golden.h"
#include "tests/shaders/null_device.h"
#include "tests/support.h"

namespace infer::vulkan::test {
namespace {
using namespace infer::test;
TEST_CASE("dump") {
  const auto instance = null_instance();
  REQUIRE(instance.has_value());
  for (const PhysicalDevice& d : (*instance)->devices()) std::fprintf(stderr, "%s %s %s sub %u int %d mat %s\n", d.name.c_str(), d.description.c_str(), d.usable.message().c_str(), d.subgroup, d.fast_integer_dots, d.matrices.name().c_str());
  for (const GoldenModel& model : golden_models()) {
    EvaluateOptions options;
    options.load.device = "vulkan:0";
    options.open = opener({.instance = *instance});
    const size_t pieces[] = {3, 1, 32, model.tokens.size()};
    evaluate_in_pieces(model, options, pieces);
  }
  std::fprintf(stderr, "%zu\n", compiled_shaders().size());
  const char* to = std::getenv("DUMP");
  if (to == nullptr) return;
  for (const auto& [key, c] : compiled_shaders()) {
    std::string n = std::string(to) + "/" + key.first;
    for (uint32_t v : key.second) n += "_" + std::to_string(v);
    FILE* f = std::fopen(n.c_str(), "w");
    for (const auto& [k, v] : c.statistics) std::fprintf(f, "%s=%ld; ", k.c_str(), long(v));
    std::fprintf(f, "\n%s", c.code.c_str());
    std::fclose(f);
  }
}
}
}
