#include "engine/core/cache_folder.h"

#include <cstdlib>
#include <filesystem>

namespace infer {

std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "infer";
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache" / "infer";
  return {};
}

Status make_private_folder_of(const std::string& file) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::filesystem::create_directories(folder, failed);
  if (!failed) {
    using std::filesystem::perms;
    std::filesystem::permissions(folder, perms::group_write | perms::others_write,
                                 std::filesystem::perm_options::remove, failed);
  }
  if (failed) return error(StatusCode::io, "{}: {}", file, failed.message());
  return {};
}

}  // namespace infer
