// The processor's name out of texts such as /proc/cpuinfo.
#include "engine/core/platform/processor.h"

#include <doctest.h>

#include <sstream>

namespace infer::os {
namespace {

std::string name_in(const char* text) {
  std::istringstream stream(text);
  return processor_name(stream);
}

TEST_CASE("processors by name") {
  CHECK(name_in("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n") == "Some CPU @ 3 GHz");
  CHECK(name_in("") == "CPU");
  CHECK(name_in("processor\t: 0\nCPU implementer\t: \nCPU part") == "CPU");
}

TEST_CASE("ARM processors by their cores") {
  constexpr const char* kSmall = "CPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n";
  constexpr const char* kLarge = "CPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n";
  const std::string small = kSmall;
  CHECK(name_in((small + small).c_str()) == "Cortex-A55");
  CHECK(name_in((small + small + kLarge).c_str()) == "2 × Cortex-A55 + 1 × Cortex-A76");
  CHECK(name_in("CPU implementer\t: 0x61\nCPU part\t: 0x022\n") ==
        "ARM core 0x022 of implementer 0x61");
}

}  // namespace
}  // namespace infer::os
