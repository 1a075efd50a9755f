// Files opened for reading: positioned reads that survive interruption and report a file that was
// cut short, and mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/status.h"

namespace infer {

/// Text from a file, fit for a message: control characters and bytes beyond ASCII escaped, at most
/// 80 characters.
std::string printable(std::string_view text);

/// Whether a text from a file may name a file or folder beside it: a name, not a path, so that it
/// reaches nothing elsewhere. 1 to 255 bytes without '/', '\\' and zero; not "." or "..".
bool is_file_name(std::string_view text);

/// Gives bytes in memory a path, "memory:" and the name, that File::open() takes. The bytes stay as
/// they are until the process ends. The same name again means the new bytes. Any thread.
std::string memory_file(std::string_view name, std::span<const std::byte> bytes);
/// True if memory_file() gave this path.
bool is_memory_path(std::string_view path);

class File;
/// Fails if the file is what Git LFS leaves in the place of one that it has not fetched: bad_file,
/// with what to do.
Status check_fetched(const File& file);

/// A regular file or bytes in memory (memory_file()), open for reading. Reads are safe from several
/// threads.
class File {
 public:
  /// not_found, io, or bad_file where the path is something other than a regular file.
  static Result<File> open(const std::string& path);
  File(File&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        path_(std::move(other.path_)),
        size_(other.size_),
        memory_(other.memory_) {}
  File& operator=(File&&) = delete;
  ~File();

  /// −1 if the bytes are in memory.
  int fd() const { return fd_; }
  /// The bytes if they are in memory, otherwise null.
  const std::byte* memory() const { return memory_; }
  const std::string& path() const { return path_; }
  /// Bytes, when it was opened.
  uint64_t size() const { return size_; }

  /// Ok if only the user and root could have written the file: the file and its folder belong to
  /// one of the two, and neither is writable for group or others. Errors: invalid_argument, which
  /// says what is wrong; io.
  Status written_by_user() const;

  /// Fills `out` from `offset`. bad_file if the file ends before that, io if the system fails.
  Status read_at(uint64_t offset, std::span<std::byte> out) const;

 private:
  File(int fd, std::string path, uint64_t size) : fd_(fd), path_(std::move(path)), size_(size) {}

  int fd_;
  std::string path_;
  uint64_t size_;
  const std::byte* memory_ = nullptr;
};

/// A file, mapped when first asked for; bytes in memory are used where they are. Safe from several
/// threads.
class MappedFile {
 public:
  explicit MappedFile(File file) : file_(std::move(file)) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const File& file() const { return file_; }
  /// All of the file for as long as this lives. io if the system refuses.
  Result<const std::byte*> mapping() const;

 private:
  File file_;
  mutable std::mutex mutex_;
  mutable const std::byte* mapping_ = nullptr;
};

}  // namespace infer
