#include "platform/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "platform/interrupt.h"

namespace infer::platform {
namespace {

// The names and the locks are those of AtomicFile (engine/core/atomic_file.cpp).
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kEnd = ".part";

bool is_part_of(std::string_view name, std::string_view target) {
  if (!name.starts_with(target) || !name.ends_with(kEnd)) return false;
  name.remove_prefix(target.size());
  if (name.size() < kEnd.size() || !name.starts_with('.')) return false;
  name = name.substr(1, name.size() - 1 - kEnd.size());
  const size_t dash = name.find_first_not_of(kDigits);
  return dash != std::string_view::npos && dash > 0 && name[dash] == '-' &&
         dash + 1 < name.size() && name.find_first_not_of(kDigits, dash + 1) == name.npos;
}

/// False if another opening of the file has its lock. A file system without locks has none.
bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

/// Whether the path names this open file.
bool is_named(int file, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return fstat(file, &open_file) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

void remove_if_abandoned(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && is_named(file, path)) (void)unlink(path.c_str());
  (void)close(file);
}

void remove_abandoned_beside(const std::filesystem::path& target) {
  namespace fs = std::filesystem;
  const std::string name = target.filename().string();
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code unknown;
    if (is_part_of(at->path().filename().string(), name) &&
        at->symlink_status(unknown).type() == fs::file_type::regular) {
      remove_if_abandoned(at->path().string());
    }
  }
}

}  // namespace

std::FILE* create_part(const std::string& target, std::string& path) {
  remove_abandoned_beside(target);
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path = target + "." + std::to_string(getpid()) + "-" + std::to_string(attempt);
    path += kEnd;
    // Before it is there: a signal may come at once.
    set_unfinished_file(path.c_str());
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) set_unfinished_file(nullptr);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) break;
    // Another writer may have taken it for an abandoned one before it was locked.
    if (lock(file) && is_named(file, path)) {
      std::FILE* const stream = fdopen(file, "wb");
      if (stream != nullptr) return stream;
      (void)unlink(path.c_str());
    }
    set_unfinished_file(nullptr);
    (void)close(file);
  }
  path.clear();
  return nullptr;
}

int sync(std::FILE* file) { return std::fflush(file) == 0 && fsync(fileno(file)) == 0 ? 0 : errno; }

}  // namespace infer::platform
