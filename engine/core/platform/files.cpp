#include "engine/core/platform/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace infer::os {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux moves a little under 2 GiB a call

std::error_code code_of(int number) { return {number, std::generic_category()}; }

tl::unexpected<std::error_code> failure() { return tl::unexpected(code_of(errno)); }

/// Ok, or the failure, of a call that returns 0 or −1.
std::error_code checked(int result) { return result == 0 ? std::error_code() : code_of(errno); }

FileInfo info_of(const struct stat& info) {
  constexpr mode_t kRights = 0777;
  FileKind kind = FileKind::other;
  if (S_ISREG(info.st_mode)) kind = FileKind::regular;
  if (S_ISDIR(info.st_mode)) kind = FileKind::folder;
  if (S_ISLNK(info.st_mode)) kind = FileKind::link;
  return {kind, static_cast<uint64_t>(info.st_size), info.st_mode & kRights};
}

/// What call() transfers; it is repeated if a signal interrupts it.
template <typename Call>
Answer<size_t> transferred(Call call) {
  for (;;) {
    const ssize_t done = call();
    if (done >= 0) return static_cast<size_t>(done);
    if (errno != EINTR) return failure();
  }
}

Status check_writers(const std::string& path, const struct stat& info) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return error(StatusCode::invalid_argument, "{}: it belongs to user {}, not to this one or root",
                 path, info.st_uid);
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return error(StatusCode::invalid_argument,
                 "{}: others may write to it (mode {:o}); expected its owner alone", path,
                 info.st_mode & 07777u);
  }
  return {};
}

Status not_examined(const std::string& path) {
  return error(StatusCode::io, "{}: cannot examine: {}", path, code_of(errno).message());
}

}  // namespace

Answer<FileInfo> examine(int file) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return failure();
  return info_of(info);
}

Answer<FileInfo> examine(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return failure();
  return info_of(info);
}

Answer<FileInfo> examine_link(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return failure();
  return info_of(info);
}

Answer<std::string> resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr),
                                                           &std::free);
  if (target == nullptr) return failure();
  return std::string(target.get());
}

std::error_code check_readable(const std::string& path) {
  return checked(::access(path.c_str(), R_OK));
}

Status check_writers(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? check_writers(path, info) : not_examined(path);
}

Status check_writers(const std::string& path, int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? check_writers(path, info) : not_examined(path);
}

Answer<std::vector<std::string>> names_in(const std::string& folder) {
  const auto close = [](DIR* opened) { ::closedir(opened); };
  const std::unique_ptr<DIR, decltype(close)> opened(::opendir(folder.c_str()), close);
  if (opened == nullptr) return failure();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(opened.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return failure();
  return names;
}

Answer<int> open_to_read(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return failure();
  return file;
}

Answer<int> create_file(const std::string& path, uint32_t rights) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_t{rights});
  if (file < 0) return failure();
  return file;
}

std::error_code try_lock(int file) { return checked(::flock(file, LOCK_EX | LOCK_NB)); }

bool is_named(int file, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(file, &open_file) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

std::error_code set_rights(int file, uint32_t rights) {
  return checked(::fchmod(file, mode_t{rights}));
}

Answer<int> create_nameless(const std::string& folder) {
  std::string name = folder + "/infer-cache-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return failure();
  ::unlink(name.c_str());
  return file;
}

std::error_code close_file(int file) {
  return file < 0 ? std::error_code() : checked(::close(file));
}

Answer<size_t> read_at(int file, std::span<std::byte> to, uint64_t offset) {
  return transferred([&] {
    return ::pread(file, to.data(), std::min(to.size(), kMostAtOnce), static_cast<off_t>(offset));
  });
}

Answer<size_t> write_at(int file, std::span<const std::byte> from, uint64_t offset) {
  return transferred([&] {
    return ::pwrite(file, from.data(), std::min(from.size(), kMostAtOnce),
                    static_cast<off_t>(offset));
  });
}

Answer<size_t> write(int file, std::span<const std::byte> from) {
  return transferred(
      [&] { return ::write(file, from.data(), std::min(from.size(), kMostAtOnce)); });
}

std::error_code sync(int file) { return checked(::fsync(file)); }

void sync_folder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

std::error_code rename_over(const char* from, const char* to) {
  return checked(std::rename(from, to));
}

void remove_file(const char* path) { ::unlink(path); }

int process_id() { return ::getpid(); }

}  // namespace infer::os
