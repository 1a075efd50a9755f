#include "gui/host/energy.h"

#include "gui/host/system_files.h"

namespace infer::gui {

EnergyMeter::Reading EnergyMeter::read() {
  const std::filesystem::path folder = root_ / "sys/class/powercap";
  bool any = false;
  bool denied = false;
  // Counters of parts of a package have a second number, "intel-rapl:0:1", and count twice.
  for (const auto& counter : numbered(folder, "intel-rapl:")) {
    const std::optional<std::string> name = read_system_text(counter / "name");
    if (!name || !name->starts_with("package")) continue;  // "psys" is the whole machine
    bool refused = false;
    const std::optional<std::string> text = read_system_text(counter / "energy_uj", &refused);
    const std::optional<int64_t> now = text ? number_in(*text) : std::nullopt;
    denied = denied || refused;
    if (!now || *now < 0) continue;
    any = true;
    const auto [before, first] = last_.try_emplace(counter, *now);
    if (first) continue;
    int64_t used = *now - before->second;
    if (used < 0) used += read_number(counter / "max_energy_range_uj").value_or(0);
    // A counter without a range that came round, or one that was set back.
    if (used > 0) microjoules_ += static_cast<double>(used);
    before->second = *now;
  }
  if (any) return {microjoules_ * 1e-6, {}};
  if (denied) {
    return {std::nullopt,
            "only the administrator may read the processor's energy; 'sudo chmod a+r "
            "/sys/class/powercap/intel-rapl:*/energy_uj' allows it until the next start"};
  }
  return {std::nullopt, "the system does not tell the processor's energy"};
}

}  // namespace infer::gui
