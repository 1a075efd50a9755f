#include "gui/host/system_monitor.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "gui/host/system_files.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostWaiting = 600;

/// The next whole number of a text, which it takes away.
std::optional<int64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::optional<int64_t> number = number_in(text);
  text.remove_prefix(std::min(text.find(' '), text.size()));
  return number;
}

std::optional<int64_t> bytes_in(std::string_view text, std::string_view field) {
  const std::optional<int64_t> kilobytes = field_in(text, field);
  constexpr int64_t kMost = int64_t{1} << 50;
  if (!kilobytes || *kilobytes < 0 || *kilobytes > kMost) return std::nullopt;
  return *kilobytes * 1024;
}

/// Of the sensors of processors the first that tells a temperature.
std::optional<double> processor_temperature(const fs::path& root) {
  for (const fs::path& sensors : numbered(root / "sys/class/hwmon", "hwmon")) {
    const std::optional<std::string> name = read_system_text(sensors / "name");
    if (!name) continue;
    const std::string_view kind = std::string_view(*name).substr(0, name->find('\n'));
    if (kind != "coretemp" && kind != "k10temp" && kind != "zenpower" && kind != "cpu_thermal") {
      continue;
    }
    if (const auto celsius = read_scaled(sensors / "temp1_input", 1e-3)) return celsius;
  }
  return std::nullopt;
}

double share_of(int64_t part, int64_t all) {
  if (all <= 0) return 0;
  return std::clamp(static_cast<double>(part) / static_cast<double>(all), 0.0, 1.0);
}

}  // namespace

SystemSampler::SystemSampler(fs::path root, std::string nvml)
    : root_(std::move(root)),
      energy_({.sys = root_ / "sys"}),
      energy_before_(energy_.read()),
      energy_time_(energy_before_.at),
      gpus_({root_ / "sys", std::move(nvml)}) {}

SystemSampler::Ticks SystemSampler::read_ticks() const {
  const std::optional<std::string> machine = read_system_text(root_ / "proc/stat");
  const std::optional<std::string> process = read_system_text(root_ / "proc/self/stat");
  if (!machine || !machine->starts_with("cpu ")) return {};
  Ticks ticks;
  std::string_view line = std::string_view(*machine).substr(4, machine->find('\n') - 4);
  // user, nice, system, idle, iowait, irq, softirq, steal; guests count as user already.
  for (int i = 0; i < 8; ++i) {
    const std::optional<int64_t> number = take_number(line);
    if (!number || *number < 0 || *number > (int64_t{1} << 58)) break;
    ticks.all += *number;
    if (i != 3 && i != 4) ticks.busy += *number;
    ticks.known = i >= 3;
  }
  // The name of the process, in parentheses, may hold anything.
  const size_t name_end = process ? process->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return ticks;
  std::string_view rest = std::string_view(*process).substr(name_end + 1);
  constexpr int kUser = 11, kSystem = 12;  // counted from the state, which follows the name
  for (int i = 0; i <= kSystem; ++i) {
    const std::optional<int64_t> number = take_number(rest);
    if (i >= kUser && number) ticks.process += std::clamp<int64_t>(*number, 0, int64_t{1} << 58);
  }
  return ticks;
}

void SystemSampler::read_processors(SystemSample& sample) {
  const Ticks now = read_ticks();
  if (now.known && ticks_.known) {
    const int64_t all = now.all - ticks_.all;
    sample.machine_cpu = share_of(now.busy - ticks_.busy, all);
    sample.process_cpu = share_of(now.process - ticks_.process, all);
  }
  ticks_ = now;
  double megahertz = 0;
  int64_t counted = 0;
  for (const fs::path& cpu : numbered(root_ / "sys/devices/system/cpu", "cpu")) {
    const std::optional<double> own = read_scaled(cpu / "cpufreq/scaling_cur_freq", 1e-3);
    if (!own) continue;
    megahertz += *own;
    ++counted;
  }
  if (counted > 0) sample.cpu_mhz = megahertz / static_cast<double>(counted);
  sample.cpu_celsius = processor_temperature(root_);
  const std::optional<int64_t> throttled = throttle_count();
  if (throttled && throttled_)
    sample.cpu_throttled = std::max<int64_t>(*throttled - *throttled_, 0);
  throttled_ = throttled;
}

std::optional<int64_t> SystemSampler::throttle_count() const {
  std::optional<int64_t> count;
  for (const fs::path& cpu : numbered(root_ / "sys/devices/system/cpu", "cpu")) {
    // The package's count is told by each of its processors; theirs are their own.
    const auto own = read_number(cpu / "thermal_throttle/core_throttle_count");
    if (own && *own >= 0 && *own < (int64_t{1} << 40)) count = count.value_or(0) + *own;
  }
  return count;
}

void SystemSampler::read_memory(SystemSample& sample) const {
  if (const auto text = read_system_text(root_ / "proc/meminfo")) {
    sample.memory_total = bytes_in(*text, "MemTotal");
    sample.memory_available = bytes_in(*text, "MemAvailable");
  }
  if (const auto text = read_system_text(root_ / "proc/self/status")) {
    sample.process_resident = bytes_in(*text, "VmRSS");
    sample.process_peak = bytes_in(*text, "VmHWM");
  }
}

void SystemSampler::read_energy(SystemSample& sample) {
  EnergyMeter::Reading now = energy_.read();
  if (energy_.sources().empty()) {
    sample.no_energy = energy_.refused().empty() ? "the system does not tell the processor's energy"
                                                 : energy_.refused();
    return;
  }
  // A counter that cannot be read now may be read again later.
  if (const std::optional<double> used = energy_.joules(energy_before_, now)) {
    const double seconds = std::chrono::duration<double>(sample.time - energy_time_).count();
    if (seconds > 0) sample.cpu_watts = *used / seconds;
    energy_time_ = sample.time;
    joules_ += *used;
    energy_before_ = std::move(now);
  }
  sample.cpu_joules = joules_;
}

SystemSample SystemSampler::sample() {
  SystemSample sample;
  sample.time = std::chrono::steady_clock::now();
  read_processors(sample);
  read_memory(sample);
  read_energy(sample);
  sample.gpus = gpus_.read();
  return sample;
}

SystemMonitor::SystemMonitor(WakeFn wake, MonitorOptions options)
    : options_(std::move(options)), samples_(std::move(wake)), thread_([this] { work(); }) {}

SystemMonitor::~SystemMonitor() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void SystemMonitor::run(bool on) {
  const std::lock_guard lock(mutex_);
  on_ = on;
  changed_.notify_all();
}

void SystemMonitor::work() {
  SystemSampler sampler(options_.root, options_.nvml);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || on_; });
    if (ending_) return;
    lock.unlock();
    try {
      samples_.push_bounded(sampler.sample(), kMostWaiting);
    } catch (const std::bad_alloc&) {
      // This sample is left out.
    }
    lock.lock();
    changed_.wait_for(lock, options_.every, [&] { return ending_ || !on_; });
  }
}

void SystemMonitor::poll(const std::function<void(const SystemSample&)>& see) {
  for (const SystemSample& sample : samples_.take()) see(sample);
}

}  // namespace infer::gui
