#include "infer/energy.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "engine/telemetry/nvml.h"
#include "engine/telemetry/small_files.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

constexpr double kMicro = 1e-6;
constexpr double kMilli = 1e-3;

/// What tells energy or power.
struct Source {
  enum class Kind { counter, power, nvml };
  Kind kind = Kind::counter;
  std::string name;
  std::string file;   ///< µJ or µW
  int64_t range = 0;  ///< at which a counter begins again; 0: never
  Nvml::Gpu gpu;
};

/// The sources that were found.
struct Sources {
  explicit Sources(const EnergyOptions& options);

  void find_rapl(const std::string& sys);
  void find_hwmon(const std::string& sys);
  void find_nvml(const std::string& name);
  std::optional<int64_t> value(const Source& source) const;

  std::vector<Source> sources;
  std::string refused;
  std::unique_ptr<Nvml> nvml;  ///< null: there is none
};

Sources::Sources(const EnergyOptions& options) {
  find_rapl(options.sys);
  if (!options.gpus) return;
  find_hwmon(options.sys);
  find_nvml(options.nvml);
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
  nvml = Nvml::open(name);
  if (nvml == nullptr) return;
  for (const Nvml::Gpu& gpu : nvml->gpus()) {
    if (!nvml->millijoules(gpu)) continue;
    sources.push_back({Source::Kind::nvml, fmt::format("nvidia {}", gpu.index), {}, 0, gpu});
  }
}

std::optional<int64_t> Sources::value(const Source& source) const {
  return source.kind == Source::Kind::nvml ? nvml->millijoules(source.gpu)
                                           : small_number(source.file);
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
