// Energy from a made-up /sys.
#include <doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "infer/energy.hpp"
#include "tests/support.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

class Sys {
 public:
  void put(const std::string& file, const std::string& text) {
    const fs::path path = root() + "/" + file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void package(int number, const std::string& microjoules) {
    const std::string zone = "class/powercap/intel-rapl:" + std::to_string(number) + "/";
    put(zone + "name", "package-" + std::to_string(number));
    put(zone + "energy_uj", microjoules);
    put(zone + "max_energy_range_uj", "1000000");
  }
  EnergyOptions options(bool gpus = false) const { return {root(), gpus, ""}; }
  std::string root() const { return folder_.path("sys"); }

 private:
  test::TempDir folder_;
};

using Names = std::vector<std::string>;

TEST_CASE("energy: packages add up, their parts and copies do not count") {
  Sys sys;
  sys.package(0, "100");
  sys.package(1, "200");
  sys.put("class/powercap/intel-rapl:0:0/name", "core");
  sys.put("class/powercap/intel-rapl:0:0/energy_uj", "50");
  sys.put("class/powercap/intel-rapl-mmio:0/name", "package-0");
  sys.put("class/powercap/intel-rapl-mmio:0/energy_uj", "100");
  sys.put("class/powercap/intel-rapl:2/name", "psys");
  sys.put("class/powercap/intel-rapl:2/energy_uj", "9");
  const EnergyMeter meter(sys.options());
  CHECK(meter.sources() == Names{"package-0", "package-1"});
  CHECK(meter.refused().empty());
  const EnergyMeter::Reading before = meter.read();
  sys.package(0, "300100");
  sys.package(1, "200200");
  CHECK(meter.joules(before, meter.read()).value() == doctest::Approx(0.5));
}

TEST_CASE("energy: a counter begins again at its range") {
  Sys sys;
  sys.package(0, "900000");
  const EnergyMeter meter(sys.options());
  const EnergyMeter::Reading before = meter.read();
  sys.package(0, "100000");
  CHECK(meter.joules(before, meter.read()).value() == doctest::Approx(0.2));
}

TEST_CASE("energy: a counter that falls without a range tells nothing") {
  Sys sys;
  sys.package(0, "900000");
  fs::remove(sys.root() + "/class/powercap/intel-rapl:0/max_energy_range_uj");
  const EnergyMeter meter(sys.options());
  const EnergyMeter::Reading before = meter.read();
  sys.put("class/powercap/intel-rapl:0/energy_uj", "100000");
  CHECK_FALSE(meter.joules(before, meter.read()).has_value());
}

TEST_CASE("energy: what cannot be read is said and left out") {
  Sys sys;
  sys.put("class/powercap/intel-rapl:0/name", "package-0");
  fs::create_directories(sys.root() + "/class/powercap/intel-rapl:0/energy_uj");
  {
    const EnergyMeter meter(sys.options());
    CHECK(meter.sources().empty());
    CHECK(meter.refused().find("intel-rapl:0/energy_uj: ") != std::string::npos);
    CHECK_FALSE(meter.joules(meter.read(), meter.read()).has_value());
  }
  for (const char* text : {"", "joules", "-5", "99999999999999999999999"}) {
    Sys odd;
    odd.package(0, text);
    const EnergyMeter meter(odd.options());
    INFO(text);
    CHECK(meter.sources().empty());
    CHECK(meter.refused().find("not a number") != std::string::npos);
  }
}

TEST_CASE("energy: a counter that goes away makes the sum unknown") {
  Sys sys;
  sys.package(0, "100");
  const EnergyMeter meter(sys.options());
  const EnergyMeter::Reading before = meter.read();
  fs::remove_all(sys.root());
  CHECK_FALSE(meter.joules(before, meter.read()).has_value());
}

TEST_CASE("energy: GPUs count only if asked for") {
  Sys sys;
  sys.put("class/hwmon/hwmon2/name", "amdgpu");
  sys.put("class/hwmon/hwmon2/power1_average", "40000000");
  sys.put("class/hwmon/hwmon3/name", "xe");
  sys.put("class/hwmon/hwmon3/energy1_input", "1000000");
  sys.put("class/hwmon/hwmon4/name", "coretemp");
  sys.put("class/hwmon/hwmon4/power1_average", "1000000");
  CHECK(EnergyMeter(sys.options()).sources().empty());
  const EnergyMeter meter(sys.options(true));
  CHECK(meter.sources() == Names{"amdgpu hwmon2", "xe hwmon3"});
  EnergyMeter::Reading before = meter.read();
  sys.put("class/hwmon/hwmon2/power1_average", "60000000");
  sys.put("class/hwmon/hwmon3/energy1_input", "3000000");
  EnergyMeter::Reading after = meter.read();
  after.at = before.at + std::chrono::seconds(2);
  // The mean power of 50 W for two seconds, and 2 J.
  CHECK(meter.joules(before, after).value() == doctest::Approx(102));
}

TEST_CASE("energy: a machine that tells nothing, and a driver that is absent") {
  test::TempDir empty;
  const EnergyMeter meter({empty.path("none"), true, "libnot-there.so.1"});
  CHECK(meter.sources().empty());
  CHECK(meter.refused().empty());
}

}  // namespace
}  // namespace infer
