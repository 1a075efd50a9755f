#include "platform/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace infer::platform {
namespace {

namespace fs = std::filesystem;

std::error_code last_error() { return {errno, std::generic_category()}; }

std::error_code write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return last_error();
    content.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(file) == 0 ? std::error_code() : last_error();
}

/// Makes the new name survive a power cut. Not every file system can do this.
void sync_folder(const fs::path& folder) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  (void)fsync(opened);
  (void)close(opened);
}

}  // namespace

std::error_code replace_file(const fs::path& path, std::string_view content) {
  std::error_code failed;
  const fs::path found = fs::canonical(path, failed);
  const fs::path target = failed ? path : found;
  // Several threads of a process may write files with the same name.
  static std::atomic<int> number{0};
  const fs::path part =
      target.string() + "." + std::to_string(getpid()) + "." + std::to_string(++number) + ".part";
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return last_error();
  std::error_code code = write_all(file, content);
  if (close(file) != 0 && !code) code = last_error();
  if (!code) fs::rename(part, target, code);
  if (code) {
    std::error_code ignored;
    fs::remove(part, ignored);
    return code;
  }
  sync_folder(target.has_parent_path() ? target.parent_path() : fs::path("."));
  return {};
}

}  // namespace infer::platform
