#include "infer/energy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "engine/core/platform/library.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

/// The start of a small file of the system, without its line end. `code`: errno if it fails.
std::optional<std::string> small_file(const fs::path& path, int* code = nullptr) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  char text[128];
  file.read(text, sizeof(text));
  const bool failed = !file.is_open() || file.bad() || (file.gcount() == 0 && errno != 0);
  if (failed && code != nullptr) *code = errno;
  if (failed) return std::nullopt;
  const char* end = std::find(text, text + file.gcount(), '\n');
  return std::string(static_cast<const char*>(text), end);
}

/// A number, 0 or more; nothing if the file has none.
std::optional<int64_t> small_number(const fs::path& path, int* code = nullptr) {
  const std::optional<std::string> text = small_file(path, code);
  int64_t number = -1;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number < 0 ? std::nullopt : std::optional(number);
}

/// The entries of a folder, sorted; none if it is absent.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

constexpr double kMicro = 1e-6;
constexpr double kMilli = 1e-3;

/// What tells energy or power.
struct Source {
  enum class Kind { counter, power, nvml };
  Kind kind = Kind::counter;
  std::string name;
  std::string file;        ///< µJ or µW
  int64_t range = 0;       ///< at which a counter begins again; 0: never
  void* device = nullptr;  ///< NVML's handle
};

/// The sources that were found.
struct Sources {
  explicit Sources(const EnergyOptions& options);
  ~Sources() {
    if (nvml_shutdown != nullptr) nvml_shutdown();
  }
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  void find_rapl(const std::string& sys);
  void find_hwmon(const std::string& sys);
  void find_nvml(const std::string& name);
  std::optional<int64_t> value(const Source& source) const;

  std::vector<Source> sources;
  std::string refused;
  // Functions of NVIDIA's management library (nvml.h).
  int (*nvml_shutdown)() = nullptr;
  int (*nvml_energy)(void* device, unsigned long long* millijoules) = nullptr;
};

Sources::Sources(const EnergyOptions& options) {
  find_rapl(options.sys);
  if (!options.gpus) return;
  find_hwmon(options.sys);
  if (!options.nvml.empty()) find_nvml(options.nvml);
}

void Sources::find_rapl(const std::string& sys) {
  constexpr std::string_view kZone = "intel-rapl:";
  for (const fs::path& zone : entries_of(fs::path(sys) / "class" / "powercap")) {
    const std::string folder = zone.filename().string();
    // Zones within a package have a second number; "intel-rapl-mmio" counts the same once more.
    if (!folder.starts_with(kZone) || folder.find(':', kZone.size()) != std::string::npos) continue;
    const std::optional<std::string> name = small_file(zone / "name");
    if (!name || !name->starts_with("package")) continue;
    const fs::path counter = zone / "energy_uj";
    int code = 0;
    if (!small_number(counter, &code)) {
      refused = fmt::format(
          "{}: {}{}", counter.string(),
          code == 0 ? "not a number" : std::generic_category().message(code),
          code == EACCES ? "; only root may read it (as root: chmod a+r on that file)" : "");
      continue;
    }
    const int64_t range = small_number(zone / "max_energy_range_uj").value_or(0);
    sources.push_back({Source::Kind::counter, *name, counter.string(), range});
  }
}

void Sources::find_hwmon(const std::string& sys) {
  for (const fs::path& monitor : entries_of(fs::path(sys) / "class" / "hwmon")) {
    const std::optional<std::string> name = small_file(monitor / "name");
    if (!name || (*name != "amdgpu" && *name != "i915" && *name != "xe")) continue;
    const std::string source = *name + " " + monitor.filename().string();
    if (small_number(monitor / "energy1_input")) {
      sources.push_back({Source::Kind::counter, source, (monitor / "energy1_input").string()});
      continue;
    }
    for (const char* power : {"power1_average", "power1_input"}) {
      if (!small_number(monitor / power)) continue;
      sources.push_back({Source::Kind::power, source, (monitor / power).string()});
      break;
    }
  }
}

void Sources::find_nvml(const std::string& name) {
  void* library = os::open_library(name.c_str());
  if (library == nullptr) return;
  const auto find = [&]<typename Function>(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(os::find_function(library, symbol));
    return function != nullptr;
  };
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, void**) = nullptr;
  int (*shutdown)() = nullptr;
  if (!find("nvmlInit_v2", init) || !find("nvmlDeviceGetCount_v2", count) ||
      !find("nvmlDeviceGetHandleByIndex_v2", handle) || !find("nvmlShutdown", shutdown) ||
      !find("nvmlDeviceGetTotalEnergyConsumption", nvml_energy) || init() != 0) {
    return;
  }
  nvml_shutdown = shutdown;
  constexpr unsigned kMostDevices = 64;
  unsigned devices = 0;
  if (count(&devices) != 0) return;
  for (unsigned i = 0; i < std::min(devices, kMostDevices); ++i) {
    Source source{Source::Kind::nvml, fmt::format("nvidia {}", i), {}};
    if (handle(i, &source.device) == 0 && value(source)) sources.push_back(source);
  }
}

std::optional<int64_t> Sources::value(const Source& source) const {
  if (source.kind != Source::Kind::nvml) return small_number(source.file);
  unsigned long long millijoules = 0;
  if (nvml_energy(source.device, &millijoules) != 0) return std::nullopt;
  return static_cast<int64_t>(millijoules & INT64_MAX);
}

}  // namespace

struct EnergyMeter::State : Sources {
  using Sources::Sources;
};

EnergyMeter::EnergyMeter(const EnergyOptions& options) : state_(std::make_unique<State>(options)) {}

EnergyMeter::~EnergyMeter() = default;

const std::string& EnergyMeter::refused() const { return state_->refused; }

std::vector<std::string> EnergyMeter::sources() const {
  std::vector<std::string> names;
  for (const Source& source : state_->sources) names.push_back(source.name);
  return names;
}

EnergyMeter::Reading EnergyMeter::read() const {
  Reading reading;
  for (const Source& source : state_->sources) reading.values.push_back(state_->value(source));
  reading.at = std::chrono::steady_clock::now();
  return reading;
}

std::optional<double> EnergyMeter::joules(const Reading& from, const Reading& to) const {
  if (state_->sources.empty()) return std::nullopt;
  double sum = 0;
  for (size_t i = 0; i < state_->sources.size(); ++i) {
    if (!from.values[i] || !to.values[i]) return std::nullopt;
    const auto before = static_cast<double>(*from.values[i]);
    const auto after = static_cast<double>(*to.values[i]);
    if (state_->sources[i].kind == Source::Kind::power) {
      const std::chrono::duration<double> seconds = to.at - from.at;
      sum += (before + after) / 2 * kMicro * seconds.count();
      continue;
    }
    double used = after - before;
    if (used < 0) used += static_cast<double>(state_->sources[i].range);
    if (used < 0) return std::nullopt;
    sum += used * (state_->sources[i].kind == Source::Kind::nvml ? kMilli : kMicro);
  }
  return sum;
}

}  // namespace infer
