// What GPUs tell: of files as the kernel's drivers make them, and of a library that stands for
// NVIDIA's.
#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/telemetry/device_telemetry.h"
#include "engine/telemetry/gpu_files.h"
#include "engine/telemetry/nvml.h"
#include "tests/support.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

/// The folder /sys of a machine.
struct Sys {
  test::TempDir folder;

  std::string root() const { return folder.path("sys"); }
  void put(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(root()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void link(const std::string& name, const std::string& target) const {
    const fs::path path = fs::path(root()) / name;
    fs::create_directories(path.parent_path());
    fs::create_symlink(target, path);
  }
};

/// The variable that the library looks at, in a test case.
class FakeNvml {
 public:
  explicit FakeNvml(const char* value) { setenv("FAKE_NVML", value, 1); }
  ~FakeNvml() { unsetenv("FAKE_NVML"); }
};

TEST_CASE("a GPU of amdgpu") {
  const Sys sys;
  // As the kernel does it: the folder of the device is elsewhere.
  sys.put("devices/pci0000:00/0000:03:00.0/vendor", "0x1002");
  sys.link("class/drm/card1/device", "../../../devices/pci0000:00/0000:03:00.0");
  const std::string device = "class/drm/card1/device/";
  sys.put(device + "gpu_busy_percent", "37");
  sys.put(device + "mem_busy_percent", "12");
  sys.put(device + "mem_info_vram_used", "3000000000");
  sys.put(device + "mem_info_vram_total", "8000000000");
  sys.put(device + "hwmon/hwmon3/temp1_input", "54000");
  sys.put(device + "hwmon/hwmon3/power1_average", "87000000");
  sys.put(device + "hwmon/hwmon3/power1_cap", "200000000");
  sys.put(device + "hwmon/hwmon3/freq1_input", "2100000000");
  sys.put(device + "hwmon/hwmon3/freq2_input", "1250000000");
  sys.link(device + "driver", "../../../bus/pci/drivers/amdgpu");
  sys.put("class/drm/card1-DP-1/status", "connected");
  sys.put("class/drm/card0/device/vendor", "0x1234");  // of a virtual machine
  GpuMonitor monitor({sys.root(), ""});
  const std::vector<GpuTelemetry> gpus = monitor.read();
  REQUIRE(gpus.size() == 1);
  const GpuTelemetry& gpu = gpus[0];
  CHECK(gpu.name == "amdgpu (card1)");
  CHECK(gpu.pci == "0000:03:00.0");
  CHECK(*gpu.busy == doctest::Approx(0.37));
  CHECK(*gpu.memory_busy == doctest::Approx(0.12));
  CHECK(gpu.memory_used == 3000000000);
  CHECK(gpu.memory_total == 8000000000);
  CHECK(*gpu.celsius == doctest::Approx(54));
  CHECK(*gpu.watts == doctest::Approx(87));
  CHECK(*gpu.watts_limit == doctest::Approx(200));
  CHECK(*gpu.core_mhz == doctest::Approx(2100));
  CHECK(*gpu.memory_mhz == doctest::Approx(1250));
  CHECK(!gpu.throttled);
  // One that sleeps: its files are there and cannot be read as numbers.
  sys.put(device + "gpu_busy_percent", "");
  sys.put(device + "hwmon/hwmon3/temp1_input", "N/A");
  const std::vector<GpuTelemetry> asleep = monitor.read();
  CHECK(!asleep[0].busy);
  CHECK(!asleep[0].celsius);
  CHECK(asleep[0].watts.has_value());
}

TEST_CASE("GPUs of i915 and xe") {
  const Sys sys;
  const std::string i915 = "class/drm/card0/";
  sys.put(i915 + "device/vendor", "0x8086");
  sys.link(i915 + "device/driver", "../drivers/i915");
  sys.put(i915 + "gt/gt0/rps_act_freq_mhz", "1300");
  sys.put(i915 + "gt/gt0/rc6_residency_ms", "5000");
  sys.put(i915 + "gt/gt0/throttle_reason_status", "1");
  sys.put(i915 + "gt/gt0/throttle_reason_thermal", "1");
  sys.put(i915 + "gt/gt0/throttle_reason_pl1", "0");
  sys.put(i915 + "device/hwmon/hwmon1/energy1_input", "1000000");
  const std::string xe = "class/drm/card1/";
  sys.put(xe + "device/vendor", "0x8086");
  sys.link(xe + "device/driver", "../drivers/xe");
  sys.put(xe + "device/tile0/gt0/freq0/act_freq", "2000");
  sys.put(xe + "device/tile0/gt0/freq0/throttle/status", "0");
  sys.put(xe + "device/tile0/gt0/gtidle/idle_residency_ms", "7000");
  GpuFiles files(sys.root());
  const auto start = std::chrono::steady_clock::now();
  std::vector<GpuTelemetry> first;
  files.read(start, first);
  REQUIRE(first.size() == 2);
  CHECK(first[0].name == "i915 (card0)");
  CHECK(first[1].name == "xe (card1)");
  CHECK(first[0].pci.empty());  // its folder says nothing
  CHECK(!first[0].busy);
  CHECK(!first[0].watts);
  CHECK(first[0].throttled == "too hot");
  CHECK(first[1].throttled == "");
  CHECK(*first[0].core_mhz == 1300);
  CHECK(*first[1].core_mhz == 2000);
  sys.put(i915 + "gt/gt0/throttle_reason_pl1", "1");
  sys.put(i915 + "gt/gt0/rc6_residency_ms", "5500");  // asleep in half a second of two
  sys.put(i915 + "device/hwmon/hwmon1/energy1_input", "31000000");
  sys.put(xe + "device/tile0/gt0/gtidle/idle_residency_ms", "9000");
  std::vector<GpuTelemetry> second;
  files.read(start + std::chrono::seconds(2), second);
  CHECK(*second[0].busy == doctest::Approx(0.75));
  CHECK(*second[0].watts == doctest::Approx(15));
  CHECK(second[0].throttled == "power limit, too hot");
  CHECK(*second[1].busy == doctest::Approx(0));
}

TEST_CASE("GPUs of NVIDIA's library") {
  const test::TempDir folder;
  GpuMonitor monitor({folder.path("absent"), INFER_FAKE_NVML});
  const std::vector<GpuTelemetry> gpus = monitor.read();
  REQUIRE(gpus.size() == 2);
  const GpuTelemetry& gpu = gpus[0];
  CHECK(gpu.name == "NVIDIA Fake 9000");
  CHECK(gpu.pci == "0000:01:00.0");
  CHECK(*gpu.busy == doctest::Approx(0.42));
  CHECK(*gpu.memory_busy == doctest::Approx(0.07));
  CHECK(gpu.memory_total == int64_t{24} << 30);
  CHECK(gpu.memory_used == int64_t{20} << 30);
  CHECK(*gpu.celsius == 61);
  CHECK(*gpu.watts == doctest::Approx(215.5));
  CHECK(*gpu.watts_limit == doctest::Approx(450));
  CHECK(*gpu.joules == doctest::Approx(5000.5));
  CHECK(*gpu.core_mhz == 2520);
  CHECK(*gpu.memory_mhz == 10501);
  CHECK(gpu.throttled == "power limit, too hot");
  const GpuTelemetry& silent = gpus[1];
  CHECK(silent.name == std::string(96, 'N'));
  CHECK(silent.pci == "0000:c3:00.0");
  CHECK(!silent.busy);
  CHECK(!silent.memory_total);
  CHECK(!silent.watts);
  CHECK(!silent.watts_limit);
  CHECK(!silent.celsius);
  CHECK(!silent.core_mhz);
  CHECK(!silent.joules);
  CHECK(!silent.throttled);
}

TEST_CASE("reasons why NVIDIA's GPUs are slowed down") {
  const auto nvml = Nvml::open(INFER_FAKE_NVML);
  REQUIRE(nvml != nullptr);
  const auto reason = [&](const char* bits) {
    const FakeNvml set(bits);
    return nvml->read(nvml->gpus()[0]).throttled.value();
  };
  CHECK(reason("0").empty());
  CHECK(reason("1").empty());  // an idle GPU
  CHECK(reason("2") == "clocks are set lower");
  CHECK(reason("80") == "power limit");
  CHECK(reason("40") == "too hot");
  CHECK(reason("48") == "too hot");  // with the hardware's slowdown, which is the same
  CHECK(reason("8") == "its hardware");
}

TEST_CASE("a library that is absent, another one, or without its driver") {
  CHECK(Nvml::open("") == nullptr);
  CHECK(Nvml::open("libno-such-library.so.1") == nullptr);
  CHECK(Nvml::open("libm.so.6") == nullptr);
  {
    const FakeNvml set("broken");
    CHECK(Nvml::open(INFER_FAKE_NVML) == nullptr);
  }
  {
    const FakeNvml set("uncounted");
    CHECK(Nvml::open(INFER_FAKE_NVML)->gpus().empty());
  }
  CHECK(Nvml::open(INFER_FAKE_NVML)->gpus().size() == 2);
}

TEST_CASE("a GPU that is lost later tells nothing more") {
  const test::TempDir folder;
  GpuMonitor monitor({folder.path("absent"), INFER_FAKE_NVML});
  CHECK(monitor.read()[0].busy.has_value());
  const FakeNvml set("lost");
  const std::vector<GpuTelemetry> gpus = monitor.read();
  REQUIRE(gpus.size() == 2);
  CHECK(!gpus[0].busy);
  CHECK(!gpus[0].watts);
  CHECK(!gpus[0].throttled);
}

TEST_CASE("a device finds its telemetry by its place on the bus") {
  const Sys sys;
  sys.put("devices/pci0000:00/0000:03:00.0/vendor", "0x1002");
  sys.link("class/drm/card0/device", "../../../devices/pci0000:00/0000:03:00.0");
  use_telemetry({sys.root(), INFER_FAKE_NVML});
  CHECK(telemetry_at("0000:03:00.0")->name == "amdgpu (card0)");
  CHECK(telemetry_at("0000:01:00.0")->name == "NVIDIA Fake 9000");
  CHECK(!telemetry_at("0000:02:00.0"));
  CHECK(!telemetry_at(""));
  use_telemetry({sys.root() + "/none", ""});
  CHECK(!telemetry_at("0000:03:00.0"));
}

}  // namespace
}  // namespace infer
