// Expected speeds, the file of known limits, and devices that are not present.
#include <doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "engine/jobs/device_table.h"
#include "engine/jobs/known_ceilings.h"
#include "engine/jobs/speed.h"
#include "infer/jobs.hpp"
#include "tests/support.h"

namespace infer {
namespace {

DeviceLoad load_of(const char* name, const char* isa, double gigabytes, double bandwidth) {
  DeviceLoad load;
  load.info.name = load.speed.device = name;
  load.info.isa = isa;
  load.speed.source = DeviceSpeed::Source::measured;
  load.speed.read_bandwidth_gb_s = bandwidth;
  load.speed.int8_mac_g_s = 1000;
  load.work.weight_bytes = load.work.first_bytes = gigabytes * 1e9;
  load.work.full_bytes = 2 * gigabytes * 1e9;
  load.work.prompt_macs = gigabytes * 256e9;
  return load;
}

TEST_CASE("speed: a range between the fractions that were measured") {
  const DeviceLoad cpu = load_of("cpu", "avx2", 4, 40);
  const SpeedEstimate estimate = estimate_speed({&cpu, 1}, 256);
  CHECK(estimate.unknown.empty());
  CHECK(estimate.note.empty());
  // 10 tokens/s at the whole bandwidth.
  CHECK(estimate.generation.low == doctest::Approx(5.4));
  CHECK(estimate.generation.high == doctest::Approx(8.9));
  CHECK(estimate.generation_full.low == doctest::Approx(2.7));
  CHECK(estimate.prompt.low == doctest::Approx(250 * 0.29));
  CHECK(estimate.prompt.high == doctest::Approx(250 * 0.54));
}

TEST_CASE("speed: times of several devices add up") {
  const DeviceLoad both[] = {load_of("cpu", "avx512", 1, 40), load_of("vulkan:0", "", 4, 400)};
  const SpeedEstimate estimate = estimate_speed(both, 256);
  CHECK(estimate.generation.low == doctest::Approx(1 / (0.025 / 0.48 + 0.01 / 0.28)));
  CHECK(estimate.generation.high == doctest::Approx(1 / (0.025 / 0.9 + 0.01 / 0.9)));
  CHECK(estimate.devices.size() == 2);
  CHECK(estimate.note.find("one GPU has been measured") != std::string::npos);
}

TEST_CASE("speed: a prompt is not faster than its weights are read") {
  DeviceLoad gpu = load_of("vulkan:0", "", 4, 400);
  gpu.work.prompt_macs = 1;
  gpu.work.prompt_bytes = 4e9;
  const SpeedEstimate estimate = estimate_speed({&gpu, 1}, 256);
  CHECK(estimate.prompt.low == doctest::Approx(256 / (0.01 / 0.28)));
}

TEST_CASE("speed: matrices of a GPU compute its prompts") {
  DeviceLoad gpu = load_of("vulkan:0", "", 4, 400);
  const double slow = estimate_speed({&gpu, 1}, 256).prompt.low;
  gpu.speed.prompt_mac_g_s = 2000;
  CHECK(estimate_speed({&gpu, 1}, 256).prompt.low == doctest::Approx(2 * slow));
}

TEST_CASE("speed: nothing is invented") {
  DeviceLoad cpu = load_of("cpu", "avx2", 4, 40);
  cpu.speed.source = DeviceSpeed::Source::unknown;
  SpeedEstimate estimate = estimate_speed({&cpu, 1}, 256);
  CHECK(estimate.unknown == "the limits of cpu have not been measured");
  CHECK(estimate.generation.high == 0);
  DeviceLoad software = load_of("vulkan:0", "", 4, 40);
  software.info.description = "llvmpipe (LLVM 15.0.6, 256 bits), Mesa 22.3.6";
  CHECK(estimate_speed({&software, 1}, 256).generation.high == 0);
  for (const char* isa : {"scalar", "neon"}) {
    cpu = load_of("cpu", isa, 4, 40);
    estimate = estimate_speed({&cpu, 1}, 256);
    CHECK(estimate.unknown.find(isa) != std::string::npos);
    CHECK(estimate.generation.high == 0);
  }
  cpu = load_of("cpu", "avx2", 4, 40);
  cpu.work.float_macs = cpu.work.prompt_macs;
  estimate = estimate_speed({&cpu, 1}, 256);
  CHECK(estimate.generation.low > 0);
  CHECK(estimate.prompt.high == 0);
  CHECK(estimate.note.find("not quantised") != std::string::npos);
  cpu = load_of("cpu", "avx2", 4, 40);
  cpu.speed.int8_mac_g_s = 0;
  CHECK(estimate_speed({&cpu, 1}, 256).prompt.high == 0);
  // A device that computes nothing needs no limits.
  DeviceLoad idle = load_of("vulkan:0", "", 0, 0);
  const DeviceLoad both[] = {load_of("cpu", "avx2", 4, 40), idle};
  CHECK(estimate_speed(both, 256).unknown.empty());
  CHECK(estimate_speed(both, 256).devices.size() == 1);
}

TEST_CASE("speed: the work is that of the benchmark") {
  for (const char* name : {"llama-q4_0", "mixtral-f32"}) {
    LoadOptions options;
    options.threads = 1;
    options.context = 128;
    const std::string path = test::data_path(std::string("golden/") + name + ".gguf");
    const auto opened = OpenedModel::open(path, options);
    REQUIRE(opened.has_value());
    const std::vector<DeviceWork> work = device_work(*opened, 64).value();
    BenchOptions bench_options;
    bench_options.load = options;
    bench_options.prompt_tokens = {4};
    bench_options.generate_tokens = {1};
    bench_options.repeats = 1;
    const BenchReport report = bench({path}, bench_options).value();
    REQUIRE(work.size() == 1);
    CHECK(work[0].weight_bytes == doctest::Approx(report.models[0].weights_bytes).epsilon(1e-6));
    CHECK(work[0].full_bytes > work[0].first_bytes);
    CHECK(work[0].prompt_macs > 0);
  }
}

TEST_CASE("ceilings: what is kept comes back, by device and kernels") {
  test::TempDir folder;
  const std::string file = folder.path("cache/infer/ceilings");
  DeviceInfo device;
  device.name = "cpu";
  device.description = "A processor\twith\nodd characters";
  device.isa = "avx2";
  device.threads = 2;
  const std::string key = ceilings_key(device, false);
  CHECK_FALSE(known_ceilings(file, key).has_value());
  REQUIRE(keep_ceilings(file, key, {43.5, 970, 0}).ok());
  device.threads = 4;
  const std::string other = ceilings_key(device, false);
  CHECK(other != key);
  CHECK(ceilings_key(device, true) != other);
  REQUIRE(keep_ceilings(file, other, {80, 1900, 5}).ok());
  REQUIRE(keep_ceilings(file, key, {44, 971, 0}).ok());
  CHECK(known_ceilings(file, key)->read_bandwidth_gb_s == doctest::Approx(44));
  CHECK(known_ceilings(file, other)->prompt_mac_g_s == doctest::Approx(5));
  const std::string text = test::read_text(file);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  for (int i = 0; i < 200; ++i) {
    REQUIRE(keep_ceilings(file, key + std::to_string(i), {1, 1, 1}).ok());
  }
  const std::string many = test::read_text(file);
  CHECK(std::count(many.begin(), many.end(), '\n') == 64);
  CHECK(known_ceilings(file, key + "199").has_value());
  CHECK_FALSE(known_ceilings(file, key + "19").has_value());
}

TEST_CASE("ceilings: a damaged file counts as none") {
  test::TempDir folder;
  const std::string file = folder.path("ceilings");
  for (const char* rest : {"", "\t", "\t1\t2", "\t1\t2\t3\t4", "\tnan\t1\t1", "\tinf\t1\t1",
                           "\t-1\t1\t1", "\t0\t1\t1", "\t1e300\t1\t1", "\tx\ty\tz", " 1 2 3"}) {
    std::ofstream(file) << "key" << rest << "\n";
    INFO(rest);
    CHECK_FALSE(known_ceilings(file, "key").has_value());
  }
  std::ofstream(file) << std::string(70000, 'x') << "\nkey\t1\t2\t3\n";
  CHECK_FALSE(known_ceilings(file, "key").has_value());
  // It is replaced.
  REQUIRE(keep_ceilings(file, "key", {1, 2, 3}).ok());
  CHECK(known_ceilings(file, "key").has_value());
  CHECK(keep_ceilings("", "key", {1, 2, 3}).ok());
  CHECK_FALSE(known_ceilings("", "key").has_value());
  CHECK_FALSE(keep_ceilings("/proc/no/such/ceilings", "key", {1, 2, 3}).ok());
}

TEST_CASE("devices: each is found by its own name and has its own") {
  std::set<std::string> names;
  for (const DeviceSpecification& device : known_devices()) {
    INFO(device.name);
    CHECK(names.insert(device.name).second);
    const auto found = find_device(device.name);
    REQUIRE(found.has_value());
    CHECK(found->name == device.name);
    CHECK(device.memory >= int64_t{4} << 30);
    CHECK(device.read_bandwidth_gb_s >= 150);
    CHECK(device.read_bandwidth_gb_s <= 10000);
    CHECK(device.int8_tops >= device.float16_tflops);
  }
  CHECK(names.size() >= 60);
}

TEST_CASE("devices: names as people write them") {
  for (const char* name : {"RTX 4090", "rtx4090", "NVIDIA GeForce RTX 4090", "geforce-rtx_4090",
                           "4090", "  RTX  4090 "}) {
    INFO(name);
    CHECK(find_device(name).value().name == "RTX 4090");
  }
  CHECK(find_device("NVIDIA GeForce RTX 4090 Laptop GPU").value().name == "RTX 4090 Laptop");
  CHECK(find_device("AMD Radeon RX 7900 XTX").value().name == "RX 7900 XTX");
  CHECK(find_device("Intel(R) Arc A770").has_value() == false);
  CHECK(find_device("Intel Arc A770 Graphics").value().name == "Arc A770");
  CHECK(find_device("AMD Instinct MI300X").value().name == "MI300X");
  CHECK(find_device("NVIDIA RTX 6000 Ada Generation").value().name == "RTX 6000 Ada");
  for (const char* name : {"", " ", "RTX", "RTX 4900", "abacus", "\x1b[31m"}) {
    INFO(name);
    const auto found = find_device(name);
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().code() == StatusCode::device);
    CHECK(found.error().message().find("nearest names are") != std::string::npos);
    CHECK(found.error().message().find('\x1b') == std::string::npos);
  }
  CHECK(find_device("RTX 409").error().message().find("RTX 4090") != std::string::npos);
  CHECK(find_device(std::string(100000, '4')).error().code() == StatusCode::invalid_argument);
}

TEST_CASE("devices: by numbers") {
  const DeviceSpecification device = find_device("24G,1008GB/s,330TFLOPS").value();
  CHECK(device.memory == int64_t{24} << 30);
  CHECK(device.read_bandwidth_gb_s == 1008);
  CHECK(device.float16_tflops == 330);
  CHECK(find_device("24g, 1.0 tb/s").value().read_bandwidth_gb_s == 1000);
  CHECK(find_device("512M,100GB/s").value().memory == int64_t{512} << 20);
  for (const char* text :
       {",", "24G,", ",1008GB/s", "24,1008GB/s", "24G,1008", "0G,1008GB/s", "-1G,1008GB/s",
        "24G,-5GB/s", "nanG,1GB/s", "24G,infGB/s", "9999999999G,1GB/s", "24G,1008GB/s,",
        "24G,1008GB/s,330", "24G,1008GB/s,330TFLOPS,1", "1e30G,1008GB/s"}) {
    INFO(text);
    CHECK(find_device(text).error().code() == StatusCode::invalid_argument);
  }
}

TEST_CASE("forecast: a device that is not present is planned like one that is") {
  const std::string path = test::data_path("golden/llama-q4_0.gguf");
  LoadOptions options;
  options.threads = 1;
  options.context = 256;
  ForecastOptions what;
  what.measure = false;
  what.on = "RTX 4090";
  const auto found = forecast(path, options, what);
  if (!found && found.error().code() == StatusCode::unsupported) {
    test::skipped("this build has no back end for GPUs");
    return;
  }
  REQUIRE_MESSAGE(found.has_value(), found.error().message());
  CHECK(found->absent->name == "RTX 4090");
  const MemoryReport& memory = found->memory;
  CHECK(memory.gpu_layers == memory.layers + 1);
  REQUIRE(memory.devices.size() == 2);
  CHECK(memory.devices[1].device == "RTX 4090");
  CHECK(memory.devices[1].available > int64_t{22} << 30);
  CHECK(memory.devices[1].available < int64_t{24} << 30);
  CHECK(memory.devices[0].weights == 0);
  // All of it is there: this machine's limits are not needed.
  CHECK(found->speed.unknown.empty());
  CHECK(found->speed.devices.size() == 1);
  CHECK(found->speed.devices[0].source == DeviceSpeed::Source::specification);
  CHECK(found->speed.generation.high > found->speed.generation.low);
  what.on = "24G,2016GB/s,165TFLOPS";
  const Forecast twice = forecast(path, options, what).value();
  CHECK(twice.speed.generation.low == doctest::Approx(2 * found->speed.generation.low));
  CHECK(twice.memory.devices[1].weights == memory.devices[1].weights);
  // Nothing of it can be loaded.
  what.on = "";
  options.device = "RTX 4090";
  CHECK_FALSE(forecast(path, options, what).has_value());
  CHECK_FALSE(Engine::load(path, options).has_value());
}

TEST_CASE("forecast: limits are measured once and kept") {
  test::TempDir folder;
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string before = old == nullptr ? "" : old;
  setenv("XDG_CACHE_HOME", folder.path("").c_str(), 1);
  const std::string path = test::data_path("golden/llama-q4_0.gguf");
  LoadOptions options;
  options.threads = 1;
  options.context = 256;
  const Forecast unknown = forecast(path, options, {.measure = false}).value();
  CHECK(unknown.speed.unknown.find("not been measured") != std::string::npos);
  if (unknown.speed.unknown.find("kernels") != std::string::npos) {
    test::skipped(unknown.speed.unknown);
    return;
  }
  const Forecast first = forecast(path, options).value();
  const std::string kept = test::read_text(ceilings_file());
  CHECK_FALSE(kept.empty());
  const Forecast second = forecast(path, options, {.measure = false}).value();
  CHECK(first.speed.unknown == second.speed.unknown);
  CHECK(second.speed.devices[0].source == DeviceSpeed::Source::measured);
  CHECK(second.speed.generation.low == doctest::Approx(first.speed.generation.low).epsilon(0.01));
  CHECK(test::read_text(ceilings_file()) == kept);
  CHECK(first.memory.weights == plan_model(path, options).value().weights);
  // Nothing was measured of these.
  for (bool LoadOptions::*option : {&LoadOptions::exact, &LoadOptions::mmap, &LoadOptions::spill}) {
    LoadOptions other = options;
    other.*option = true;
    const Forecast found = forecast(path, other).value();
    CHECK_FALSE(found.speed.unknown.empty());
    CHECK(found.speed.generation.high == 0);
  }
  if (old != nullptr) setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace infer
