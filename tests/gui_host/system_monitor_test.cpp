// The system's monitor, of folders as the kernel makes them.
#include "gui/host/system_monitor.h"

#include <doctest.h>

#include <filesystem>

#include "gui/host/system_files.h"
#include "tests/gui_host/pump.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

namespace fs = std::filesystem;

/// A machine of files.
struct Machine {
  TempDir folder;

  std::string root() const { return folder.path("root"); }
  void put(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(root()) / name;
    fs::create_directories(path.parent_path());
    write_bytes(path.string(), bytes_of(text + "\n"));
  }
  void put_ticks(int64_t busy, int64_t idle, int64_t process) const {
    put("proc/stat", "cpu  " + std::to_string(busy) + " 0 0 " + std::to_string(idle) +
                         " 0 0 0 0 0 0\ncpu0 1 2 3 4");
    put("proc/self/stat", "77 (a) b) c) R 1 1 1 0 -1 4194304 100 0 0 0 " + std::to_string(process) +
                              " 5 0 0 20 0 1 0 1000 1000000 100");
  }
  void put_energy(const std::string& zone, const std::string& name, const std::string& energy,
                  const std::string& range) const {
    const std::string at = "sys/class/powercap/" + zone + "/";
    put(at + "name", name);
    put(at + "energy_uj", energy);
    put(at + "max_energy_range_uj", range);
  }
};

}  // namespace

TEST_CASE("nothing is told by a machine that tells nothing") {
  const TempDir folder;
  SystemSampler sampler(folder.path("absent"), "");
  for (int i = 0; i < 2; ++i) {
    const SystemSample sample = sampler.sample();
    CHECK(!sample.machine_cpu);
    CHECK(!sample.memory_total);
    CHECK(!sample.cpu_celsius);
    CHECK(!sample.cpu_mhz);
    CHECK(!sample.cpu_joules);
    CHECK(!sample.cpu_throttled);
    CHECK(sample.no_energy == "the system does not tell the processor's energy");
    CHECK(sample.gpus.empty());
  }
}

TEST_CASE("use of processors and memory") {
  const Machine machine;
  machine.put_ticks(1000, 3000, 100);
  machine.put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:  8000 kB");
  machine.put("proc/self/status", "Name: x\nVmHWM:\t  2048 kB\nVmRSS:\t    1024 kB");
  SystemSampler sampler(machine.root(), "");
  const SystemSample first = sampler.sample();
  CHECK(!first.machine_cpu);
  CHECK(first.memory_total == int64_t{16000000} * 1024);
  CHECK(first.memory_available == 8000 * 1024);
  CHECK(first.process_resident == 1 << 20);
  CHECK(first.process_peak == 2 << 20);
  machine.put_ticks(1300, 3100, 200);
  const SystemSample second = sampler.sample();
  CHECK(*second.machine_cpu == doctest::Approx(0.75));
  CHECK(*second.process_cpu == doctest::Approx(0.25));
  // Counters that were set back, and that do not move.
  machine.put_ticks(0, 0, 0);
  CHECK(*sampler.sample().machine_cpu == 0);
  CHECK(*sampler.sample().machine_cpu == 0);
}

TEST_CASE("temperature, clocks and throttling of processors") {
  const Machine machine;
  machine.put("sys/class/hwmon/hwmon0/name", "nvme");
  machine.put("sys/class/hwmon/hwmon0/temp1_input", "30000");
  machine.put("sys/class/hwmon/hwmon10/name", "k10temp");
  machine.put("sys/class/hwmon/hwmon10/temp1_input", "71250");
  for (const int cpu : {0, 1, 10}) {
    const std::string at = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    machine.put(at + "cpufreq/scaling_cur_freq", std::to_string(1'000'000 * (cpu + 1)));
    machine.put(at + "thermal_throttle/core_throttle_count", "5");
    machine.put(at + "thermal_throttle/package_throttle_count", "100");
  }
  machine.put("sys/devices/system/cpu/cpufreq/scaling_cur_freq", "9");
  SystemSampler sampler(machine.root(), "");
  const SystemSample first = sampler.sample();
  CHECK(*first.cpu_celsius == doctest::Approx(71.25));
  CHECK(*first.cpu_mhz == doctest::Approx((1000 + 2000 + 11000) / 3.0));
  CHECK(!first.cpu_throttled);
  machine.put("sys/devices/system/cpu/cpu10/thermal_throttle/core_throttle_count", "8");
  CHECK(sampler.sample().cpu_throttled == 3);
  CHECK(sampler.sample().cpu_throttled == 0);
}

TEST_CASE("power is energy over time") {
  const Machine machine;
  machine.put_energy("intel-rapl:0", "package-0", "1000000", "10000000");
  SystemSampler sampler(machine.root(), "");
  const SystemSample first = sampler.sample();
  CHECK(*first.cpu_joules == 0);
  machine.put_energy("intel-rapl:0", "package-0", "3000000", "10000000");
  const SystemSample second = sampler.sample();
  const double seconds = std::chrono::duration<double>(second.time - first.time).count();
  REQUIRE(second.cpu_watts.has_value());
  CHECK(*second.cpu_watts * seconds == doctest::Approx(2));
}

TEST_CASE("joules go on after a counter that could not be read") {
  const Machine machine;
  machine.put_energy("intel-rapl:0", "package-0", "1000000", "10000000");
  SystemSampler sampler(machine.root(), "");
  machine.put_energy("intel-rapl:0", "package-0", "none", "10000000");
  CHECK(*sampler.sample().cpu_joules == 0);
  machine.put_energy("intel-rapl:0", "package-0", "4000000", "10000000");
  CHECK(*sampler.sample().cpu_joules == doctest::Approx(3));
}

TEST_CASE("why there is no energy is told") {
  const Machine machine;
  machine.put_energy("intel-rapl:0", "package-0", "none", "10000000");
  SystemSampler sampler(machine.root(), "");
  const SystemSample sample = sampler.sample();
  CHECK(!sample.cpu_joules);
  CHECK(sample.no_energy.find("not a number") != std::string::npos);
}

TEST_CASE("GPUs come with every sample") {
  const Machine machine;
  machine.put("sys/class/drm/card1/device/vendor", "0x1002");
  machine.put("sys/class/drm/card1/device/gpu_busy_percent", "37");
  SystemSampler sampler(machine.root(), "");
  REQUIRE(sampler.sample().gpus.size() == 1);
  CHECK(*sampler.sample().gpus[0].busy == doctest::Approx(0.37));
}

TEST_CASE("numbers in the system's files") {
  CHECK(number_in("12\n") == 12);
  CHECK(number_in("  -3 kB") == -3);
  for (const char* text : {"", " ", "x1", "99999999999999999999", "\n5"}) {
    CHECK_MESSAGE(!number_in(text), text);
  }
  CHECK(field_in("ab: 1\na: 2\n", "a") == 2);
  CHECK(!field_in("ab: 1\n a: 2\na", "a"));
  CHECK(!field_in("a:", "a"));
  const Machine machine;
  machine.put("big", std::string(1 << 20, '7'));
  CHECK(read_system_text(machine.root() + "/big")->size() == 256 << 10);
  CHECK(!read_number(machine.root() + "/big"));
  CHECK(!read_system_text(machine.root()));  // a folder
  for (const char* name : {"card1", "card0", "card10", "card0-DP-1", "card", "cardx", "card-1"}) {
    machine.put(std::string("cards/") + name, "");
  }
  const auto cards = numbered(machine.root() + "/cards", "card");
  REQUIRE(cards.size() == 3);
  CHECK(cards[0].filename() == "card0");
  CHECK(cards[2].filename() == "card10");
}

TEST_CASE("samples come while they are wanted") {
  const Machine machine;
  machine.put_ticks(1, 1, 1);
  std::atomic<int> woken{0};
  SystemMonitor monitor([&] { ++woken; }, {machine.root(), "", std::chrono::milliseconds(1)});
  size_t seen = 0;
  const auto poll = [&] { monitor.poll([&](const SystemSample&) { ++seen; }); };
  poll();
  CHECK(seen == 0);
  monitor.run(true);
  CHECK(eventually([&] {
    poll();
    return seen >= 3;
  }));
  CHECK(woken > 0);
  monitor.run(false);
}

TEST_CASE("this machine is read without harm") {
  SystemSampler sampler;
  (void)sampler.sample();
  const SystemSample sample = sampler.sample();
  CHECK(sample.process_resident.has_value());
  CHECK(sample.memory_total.has_value());
  CHECK(*sample.process_cpu <= 1);
}
