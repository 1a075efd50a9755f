#include "gui/host/settings_store.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "gui/host/guard.h"
#include "platform/atomic_file.h"
#include "platform/folders.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr int kMostBroken = 9;
/// More than settings may have: what is longer is read as far as that and is broken.
constexpr size_t kMostReadBytes = (1 << 20) + 1;

/// The text of the file; empty if there is none.
Result<std::string> read(const fs::path& path) {
  std::error_code failed;
  if (!fs::exists(fs::status(path, failed))) return std::string();
  const auto cannot = [&](const std::string& why) {
    return tl::unexpected(
        Status(StatusCode::io, fmt::format("{}: cannot read: {}", path.string(), why)));
  };
  if (!fs::is_regular_file(path, failed)) return cannot("expected a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return cannot(std::generic_category().message(errno));
  std::string text(kMostReadBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return cannot(std::generic_category().message(errno));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// Renames what is no TOML, so that nothing of it is lost. The text says so.
std::string set_aside(const fs::path& path, const Status& why) {
  fs::path kept = path.string() + ".broken";
  std::error_code failed;
  for (int i = 2; i <= kMostBroken && fs::exists(kept, failed); ++i) {
    kept = fmt::format("{}.broken-{}", path.string(), i);
  }
  fs::rename(path, kept, failed);
  return fmt::format(
      "{}: {}; {}", path.string(), why.message(),
      failed ? "it cannot be renamed: " + failed.message()
             : "it was renamed to " + kept.filename().string() + ", and the defaults are used");
}

}  // namespace

fs::path settings_path() {
  const fs::path config = platform::variable("XDG_CONFIG_HOME");
  const fs::path home = platform::home_folder();
  // The specification wants relative ones ignored.
  if (config.is_absolute()) return config / "infer" / "settings.toml";
  if (home.is_absolute()) return home / ".config" / "infer" / "settings.toml";
  return {};
}

Settings read_settings(const fs::path& path) {
  const Result<std::string> text = path.empty() ? std::string() : read(path);
  if (!text) return {};
  const Result<ReadSettings> parsed = parse_settings(*text);
  return parsed ? parsed->settings : Settings();
}

SettingsStore::SettingsStore(fs::path path, WakeFn wake)
    : path_(std::move(path)), failures_(std::move(wake)) {
  if (path_.empty()) return;
  const Result<std::string> text = read(path_);
  if (!text) {
    problems_.push_back(text.error().message() + "; the defaults are used");
    return;
  }
  Result<ReadSettings> parsed = parse_settings(*text);
  if (!parsed) {
    problems_.push_back(set_aside(path_, parsed.error()));
    return;
  }
  settings_ = written_ = std::move(parsed->settings);
  for (const std::string& problem : parsed->problems) {
    problems_.push_back(fmt::format("{}: {}; the default is used", path_.string(), problem));
  }
}

SettingsStore::~SettingsStore() { writer_.finish(); }

void SettingsStore::set(Settings settings) {
  if (settings == settings_) return;
  settings_ = std::move(settings);
  if (path_.empty()) return;
  writer_.submit([this, written = settings_] {
    const Status status = guarded([&] { return save(written); });
    if (!status.ok()) failures_.push(status);
  });
}

Status SettingsStore::save(const Settings& settings) {
  const auto cannot = [&](const std::error_code& code) {
    return Status(StatusCode::io,
                  fmt::format("{}: the settings cannot be written: {}; they hold until the window "
                              "is closed",
                              path_.string(), code.message()));
  };
  std::error_code failed;
  fs::create_directories(path_.parent_path(), failed);
  if (failed) return cannot(failed);
  const Result<std::string> before = read(path_);
  if (!before) return before.error();
  Result<std::string> text = write_settings(settings, written_, *before);
  Status told;
  if (!text) {
    told = {StatusCode::bad_file, set_aside(path_, text.error())};
    text = write_settings(settings, written_, "");
  }
  if (const std::error_code code = platform::replace_file(path_, *text)) return cannot(code);
  written_ = settings;
  return told;
}

void SettingsStore::poll(const std::function<void(const Status&)>& failed) {
  for (const Status& status : failures_.take()) failed(status);
}

}  // namespace infer::gui
