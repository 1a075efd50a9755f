#include "platform/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "platform/folders.h"

namespace infer::platform {

namespace fs = std::filesystem;

std::string history_file() {
  const fs::path home = folder_of("HOME");
  const fs::path state = folder_of("XDG_STATE_HOME");
  if (home.empty() && state.empty()) return {};
  const fs::path folder = (state.empty() ? home / ".local" / "state" : state) / "infer";
  const fs::path file = folder / "history";
  std::error_code failed;
  if (fs::create_directories(folder, failed)) {
    fs::permissions(folder, fs::perms::owner_all, failed);
  }
  if (!fs::exists(file, failed)) {
    const fs::path before = state.empty() ? home / ".infer_history" : state / "infer_history";
    fs::rename(before, file, failed);  // most often there is none
  }
  const int opened = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (opened < 0) return {};
  const bool own = fchmod(opened, S_IRUSR | S_IWUSR) == 0;
  close(opened);
  return own ? file.string() : std::string();
}

std::string expanded(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

std::string full_path(const std::string& path) {
  if (path.empty() || path.starts_with("memory:")) return path;
  std::error_code failed;
  const std::filesystem::path full = std::filesystem::absolute(expanded(path), failed);
  return failed ? path : full.string();
}

}  // namespace infer::platform
