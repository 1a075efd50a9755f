#include "engine/core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace infer {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path, Access access) {
  std::unique_ptr<AtomicFile> file(new AtomicFile(path, access));
  file->buffer_.reserve(kBufferBytes);
  INFER_CHECK_R(file->open());
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::open() {
  struct stat info {};
  bool replaces = false;
  if (::lstat(path_.c_str(), &info) == 0) {
    const bool link = S_ISLNK(info.st_mode);
    if (link && ::stat(path_.c_str(), &info) != 0) {
      return error(StatusCode::io, "{}: a link to a file that does not exist: {}", path_,
                   std::generic_category().message(errno));
    }
    if (!S_ISREG(info.st_mode)) {
      return error(StatusCode::io, "{}: expected a regular file or none, found {}", path_,
                   S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
    }
    replaces = true;
    if (link) {
      const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path_.c_str(), nullptr),
                                                               &std::free);
      if (target == nullptr) return system_failure("follow the link", errno);
      path_ = target.get();
    }
  }
  constexpr mode_t kAccess = 0777;
  constexpr mode_t kUserOnly = 0600;
  const bool is_private = access_ == Access::user_only;
  const mode_t usual = replaces ? info.st_mode & kAccess : 0666;
  const mode_t mode = is_private ? kUserOnly : usual;
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = fmt::format("{}.{}-{}.part", path_, ::getpid(), attempt);
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ >= 0) {
      temporary_ = std::move(name);
      // The process may be set to create files with fewer rights than the old one had.
      if ((replaces || is_private) && ::fchmod(fd_, mode) != 0)
        return system_failure("keep its mode", errno);
      return {};
    }
    if (errno != EEXIST) break;
  }
  return system_failure("create a file in its folder", errno);
}

Status AtomicFile::write(std::span<const std::byte> data) {
  INFER_CHECK(failure_);
  if (buffer_.size() + data.size() > kBufferBytes) INFER_CHECK(flush());
  if (data.size() > kBufferBytes) return write_out(data);
  buffer_.insert(buffer_.end(), data.begin(), data.end());
  return {};
}

Status AtomicFile::commit() {
  INFER_CHECK(failure_);
  INFER_CHECK(flush());
  if (::fsync(fd_) != 0) return system_failure("write", errno);
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) return system_failure("write", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return system_failure("replace", errno);
  temporary_.clear();
  sync_folder();
  return {};
}

Status AtomicFile::system_failure(const char* what, int code) {
  failure_ = error(StatusCode::io, "{}: cannot {}: {}", path_, what,
                   std::generic_category().message(code));
  return failure_;
}

Status AtomicFile::flush() {
  INFER_CHECK(write_out(buffer_));
  buffer_.clear();
  return {};
}

Status AtomicFile::write_out(std::span<const std::byte> data) {
  constexpr size_t kMaxWriteBytes = size_t{1} << 30;
  while (!data.empty()) {
    const ssize_t done = ::write(fd_, data.data(), std::min(data.size(), kMaxWriteBytes));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return system_failure("write", errno);
    data = data.subspan(static_cast<size_t>(done));
  }
  return {};
}

/// Makes the new name last through a power cut. The file itself is safe already, so a file system
/// that cannot do this is no failure.
void AtomicFile::sync_folder() const {
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace infer
