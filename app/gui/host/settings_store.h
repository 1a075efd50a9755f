// The file of the settings.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gui/host/event_queue.h"
#include "gui/host/latest_task.h"
#include "gui/host/settings.h"

namespace infer::gui {

/// infer/settings.toml in XDG_CONFIG_HOME, else in ~/.config. Empty if neither is known.
std::filesystem::path settings_path();

/// The settings of a file as far as they can be read. Nothing is told or renamed.
Settings read_settings(const std::filesystem::path& path);

/// One thread calls all functions. Changes are written on another one.
class SettingsStore {
 public:
  /// Reads the file; without one the defaults hold. A file that is not TOML is renamed, and
  /// problems() says so. With an empty path nothing is kept.
  explicit SettingsStore(std::filesystem::path path, WakeFn wake = {});
  /// Waits until the last change has been written.
  ~SettingsStore();
  SettingsStore(const SettingsStore&) = delete;
  SettingsStore& operator=(const SettingsStore&) = delete;

  const Settings& get() const { return settings_; }
  /// What was wrong with the file, with its name, for the user.
  const std::vector<std::string>& problems() const { return problems_; }
  /// Changes the settings and returns at once. The file is replaced soon. Keys in it that are no
  /// settings stay, and those that were not changed here: another window may have written them.
  void set(Settings settings);
  /// Calls `failed` for changes that could not be written, with what to do, and for a file that had
  /// to be renamed.
  void poll(const std::function<void(const Status&)>& failed);

 private:
  Status save(const Settings& settings);

  const std::filesystem::path path_;
  Settings settings_;
  Settings written_;  ///< as the file was read or last written; of the thread that writes
  std::vector<std::string> problems_;
  EventQueue<Status> failures_;
  LatestTask writer_;  // the last member: it uses the others
};

}  // namespace infer::gui
