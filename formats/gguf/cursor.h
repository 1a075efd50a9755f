// A buffered cursor over a file's header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/core/file.h"
#include "engine/core/status.h"

namespace infer::gguf {

/// Reads a header from front to back through a buffer. It never reads, or allocates memory for,
/// more than the file holds. The file outlives the cursor. Not thread-safe.
class Cursor {
 public:
  /// Reads at most the first `limit` bytes.
  Cursor(const File& file, uint64_t limit);

  /// Sets the name of the present item, for messages: "key 'general.name'".
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  const std::string& subject() const { return subject_; }
  const std::string& path() const { return file_.path(); }

  uint64_t position() const { return base_ + next_; }
  uint64_t remaining() const { return end_ - position(); }

  /// Fails unless `count` elements of at least `bytes_each` bytes can follow.
  Status require(uint64_t count, uint64_t bytes_each) const;
  /// Copies the next out.size() bytes.
  Status read(std::span<std::byte> out);
  /// The next sizeof(T) bytes as a little-endian number.
  template <typename T>
  Status read_number(T& out) {
    if (filled_ - next_ >= sizeof(T)) {
      std::memcpy(&out, buffer_.get() + next_, sizeof(T));
      next_ += sizeof(T);
      return {};
    }
    return read(std::as_writable_bytes(std::span(&out, 1)));
  }
  /// A string: u64 length, then so many bytes.
  Status read_string(std::string& out);

 private:
  const File& file_;
  uint64_t end_;
  uint64_t base_ = 0;  // offset in the file of buffer_[0]
  size_t filled_ = 0;  // bytes of buffer_ that hold data
  size_t next_ = 0;    // the next one to hand out
  size_t capacity_;
  std::unique_ptr<std::byte[]> buffer_;
  std::string subject_ = "the header";
};

}  // namespace infer::gguf
