// Counters of energy that the kernel keeps for processor packages (powercap, "intel-rapl"; AMD's
// processors have the same names).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace infer::gui {

class EnergyMeter {
 public:
  /// `root`: the folder in which "sys" is.
  explicit EnergyMeter(std::filesystem::path root) : root_(std::move(root)) {}

  struct Reading {
    std::optional<double> joules;  ///< of all packages since the first call
    std::string why_not;           ///< and what to do; empty if there are joules
  };
  /// Has to be called again before a counter has come round: at most a minute later.
  Reading read();

 private:
  std::filesystem::path root_;
  std::map<std::filesystem::path, int64_t> last_;  ///< microjoules, by counter
  double microjoules_ = 0;
};

}  // namespace infer::gui
