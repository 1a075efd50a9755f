#include "engine/core/file.h"

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "engine/core/platform/files.h"
#include "engine/core/platform/mapping.h"

namespace infer {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 56;  // element counts stay well inside int64_t

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

bool is_file_name(std::string_view text) {
  constexpr size_t kMostBytes = 255;  // of Linux and of most file systems
  return !text.empty() && text.size() <= kMostBytes && text != "." && text != ".." &&
         text.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
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
  const os::Answer<int> opened = os::open_to_read(path);
  if (!opened) {
    const bool absent = opened.error() == std::errc::no_such_file_or_directory;
    return fail(absent ? StatusCode::not_found : StatusCode::io, "{}: cannot open: {}", path,
                opened.error().message());
  }
  file.fd_ = *opened;
  const os::Answer<os::FileInfo> info = os::examine(file.fd_);
  if (!info) {
    return fail(StatusCode::io, "{}: cannot examine: {}", path, info.error().message());
  }
  if (info->kind != os::FileKind::regular) {
    return fail(StatusCode::bad_file, "{}: expected a regular file", path);
  }
  file.size_ = info->bytes;
  if (file.size_ > kMaxFileBytes) {
    return fail(StatusCode::bad_file, "{}: {} bytes exceed the largest size supported, {}", path,
                file.size_, kMaxFileBytes);
  }
  return file;
}

File::~File() { os::close_file(fd_); }

Status check_fetched(const File& file) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  std::array<std::byte, kPointer.size()> begin;
  if (file.size() < begin.size() || !file.read_at(0, begin).ok() ||
      std::memcmp(begin.data(), kPointer.data(), begin.size()) != 0) {
    return {};
  }
  return error(
      StatusCode::bad_file,
      "{}: Git LFS has not fetched this file, only where it lies: fetch it (git lfs pull), "
      "or download it",
      file.path());
}

Status File::written_by_user() const {
  if (memory_ != nullptr) return {};
  INFER_CHECK(os::check_writers(path_, fd_));
  const size_t slash = path_.rfind('/');
  return os::check_writers(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
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
    const os::Answer<size_t> got = os::read_at(fd_, out, offset);
    if (!got) {
      return error(StatusCode::io, "{}: cannot read at byte {}: {}", path_, offset,
                   got.error().message());
    }
    if (*got == 0) {
      return error(StatusCode::bad_file,
                   "{}: was cut short while in use: it had {} bytes and now ends at or before {}",
                   path_, size_, offset);
    }
    offset += *got;
    out = out.subspan(*got);
  }
  return {};
}

MappedFile::~MappedFile() {
  if (mapping_ != nullptr) os::unmap(mapping_, static_cast<size_t>(file_.size()));
}

Result<const std::byte*> MappedFile::mapping() const {
  if (file_.memory() != nullptr) return file_.memory();
  const std::lock_guard lock(mutex_);
  if (mapping_ == nullptr) {
    const os::Answer<const std::byte*> mapped =
        os::map_file(file_.fd(), static_cast<size_t>(file_.size()));
    if (!mapped) {
      return fail(StatusCode::io, "{}: cannot map {} bytes: {}", file_.path(), file_.size(),
                  mapped.error().message());
    }
    mapping_ = *mapped;
  }
  return mapping_;
}

}  // namespace infer
