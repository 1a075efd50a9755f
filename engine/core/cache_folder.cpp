#include "engine/core/cache_folder.h"

#include <filesystem>

#include "engine/core/platform/folders.h"

namespace infer {

std::string cache_folder() {
  const std::string folder = os::cache_folder();
  return folder.empty() ? folder : folder + "/infer";
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
