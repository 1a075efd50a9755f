#include "engine/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

namespace infer {
namespace {

constexpr size_t kMaxReadBytes = size_t{1} << 30;      // Linux moves a little under 2 GiB a call
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 56;  // element counts stay well inside int64_t

std::string reason(int code) { return std::generic_category().message(code); }

constexpr std::string_view kMemory = "memory:";

/// Bytes in memory by path.
struct MemoryFiles {
  std::mutex mutex;
  std::map<std::string, std::span<const std::byte>, std::less<>> by_path;
};

MemoryFiles& memory_files() {
  static MemoryFiles files;
  return files;
}

/// The bytes of a path that memory_file() gave.
std::optional<std::span<const std::byte>> in_memory(std::string_view path) {
  if (!path.starts_with(kMemory)) return std::nullopt;
  MemoryFiles& files = memory_files();
  const std::lock_guard lock(files.mutex);
  const auto found = files.by_path.find(path);
  if (found == files.by_path.end()) return std::nullopt;
  return found->second;
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

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t kMaxChars = 80;
  std::string out;
  for (const char c : text.substr(0, kMaxChars)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kMaxChars) out += "…";
  return out;
}

std::string memory_file(std::string_view name, std::span<const std::byte> bytes) {
  std::string path = std::string(kMemory) + std::string(name);
  MemoryFiles& files = memory_files();
  const std::lock_guard lock(files.mutex);
  files.by_path[path] = bytes;
  return path;
}

bool is_memory_path(std::string_view path) { return in_memory(path).has_value(); }

Result<File> File::open(const std::string& path) {
  if (const auto bytes = in_memory(path)) {
    File file(-1, path, bytes->size());
    file.memory_ = bytes->data();
    return file;
  }
  File file(-1, path, 0);  // first what may throw, so that nothing stays open
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) {
    const StatusCode code = errno == ENOENT ? StatusCode::not_found : StatusCode::io;
    return fail(code, "{}: cannot open: {}", path, reason(errno));
  }
  struct stat info {};
  if (fstat(file.fd_, &info) != 0) {
    return fail(StatusCode::io, "{}: cannot examine: {}", path, reason(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(StatusCode::bad_file, "{}: expected a regular file", path);
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  if (file.size_ > kMaxFileBytes) {
    return fail(StatusCode::bad_file, "{}: {} bytes exceed the largest size supported, {}", path,
                file.size_, kMaxFileBytes);
  }
  return file;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Status File::written_by_user() const {
  if (memory_ != nullptr) return {};
  struct stat info {};
  if (fstat(fd_, &info) != 0) {
    return error(StatusCode::io, "{}: cannot examine: {}", path_, reason(errno));
  }
  INFER_CHECK(check_writers(path_, info));
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  if (::stat(folder.c_str(), &info) != 0) {
    return error(StatusCode::io, "{}: cannot examine: {}", folder, reason(errno));
  }
  return check_writers(folder, info);
}

Status File::read_at(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return error(StatusCode::bad_file, "{}: {} bytes at byte {} are beyond its end at {}", path_,
                 out.size(), offset, size_);
  }
  if (memory_ != nullptr) {
    std::memcpy(out.data(), memory_ + offset, out.size());
    return {};
  }
  while (!out.empty()) {
    const ssize_t got =
        pread(fd_, out.data(), std::min(out.size(), kMaxReadBytes), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return error(StatusCode::io, "{}: cannot read at byte {}: {}", path_, offset, reason(errno));
    }
    if (got == 0) {
      return error(StatusCode::bad_file,
                   "{}: was cut short while in use: it had {} bytes and now ends at or before {}",
                   path_, size_, offset);
    }
    offset += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
  return {};
}

MappedFile::~MappedFile() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(file_.size()));
}

Result<const std::byte*> MappedFile::mapping() const {
  if (file_.memory() != nullptr) return file_.memory();
  const std::lock_guard lock(mutex_);
  if (mapping_ == nullptr) {
    void* address =
        mmap(nullptr, static_cast<size_t>(file_.size()), PROT_READ, MAP_PRIVATE, file_.fd(), 0);
    if (address == MAP_FAILED) {
      return fail(StatusCode::io, "{}: cannot map {} bytes: {}", file_.path(), file_.size(),
                  reason(errno));
    }
    mapping_ = address;
  }
  return static_cast<const std::byte*>(mapping_);
}

}  // namespace infer
