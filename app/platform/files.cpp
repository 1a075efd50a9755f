#include "platform/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace infer::platform {
namespace {

int checked(int result) { return result == 0 ? 0 : errno; }

/// What call() transfers; it is repeated if a signal interrupts it.
template <typename Call>
int transfer(size_t& count, Call call) {
  count = 0;
  for (;;) {
    const ssize_t done = call();
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    count = static_cast<size_t>(done);
    return 0;
  }
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path, uint32_t rights, bool follows_link)
    : number_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | (follows_link ? 0 : O_NOFOLLOW),
                   mode_t{rights})),
      failure_(number_ < 0 ? errno : 0) {}

OpenFile::~OpenFile() {
  if (number_ >= 0) (void)close(number_);
}

int OpenFile::read(std::span<char> to, size_t& count) {
  return transfer(count, [&] { return ::read(number_, to.data(), to.size()); });
}

int OpenFile::write(std::span<const char> from, size_t& count) {
  const int failed = transfer(count, [&] { return ::write(number_, from.data(), from.size()); });
  return failed == 0 && count == 0 && !from.empty() ? ENOSPC : failed;
}

int OpenFile::clear() {
  return ftruncate(number_, 0) != 0 || lseek(number_, 0, SEEK_SET) != 0 ? errno : 0;
}

int OpenFile::sync() { return checked(fsync(number_)); }

int OpenFile::lock(int kind) {
  const int failed = checked(flock(number_, kind | LOCK_NB));
  return failed == EINTR ? EWOULDBLOCK : failed;
}

int OpenFile::try_lock() { return lock(LOCK_EX); }

int OpenFile::try_shared_lock() { return lock(LOCK_SH); }

bool OpenFile::is_named(const std::filesystem::path& path) const {
  struct stat open_file {};
  struct stat named {};
  return fstat(number_, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

void sync_folder(const std::filesystem::path& folder) {
  const int number = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number < 0) return;
  (void)fsync(number);
  (void)close(number);
}

int check_readable(const std::string& path) {
  return access(path.c_str(), F_OK) == 0 ? checked(access(path.c_str(), R_OK)) : 0;
}

int check_writable(const std::string& folder) {
  return checked(access(folder.c_str(), W_OK | X_OK));
}

int create_private(const std::filesystem::path& path) {
  const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (made < 0) return errno;
  (void)close(made);
  return 0;
}

int64_t bytes_of(std::FILE* file) {
  struct stat info {};
  if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<int64_t>(info.st_size);
}

int make_private(std::FILE* file) { return checked(fchmod(fileno(file), S_IRUSR | S_IWUSR)); }

int make_executable(std::FILE* file) {
  struct stat info {};
  if (fstat(fileno(file), &info) != 0) return errno;
  const mode_t rights = info.st_mode & 0777;
  return checked(fchmod(fileno(file), rights | (rights & 0444) >> 2));
}

int process_id() { return getpid(); }

int64_t peak_resident_bytes() {
  const std::string name = "VmHWM:";
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace infer::platform
