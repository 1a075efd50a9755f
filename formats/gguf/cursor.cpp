#include "formats/gguf/cursor.h"

#include <algorithm>
#include <bit>

namespace infer::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it is in the file");

namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

Cursor::Cursor(const File& file, uint64_t limit)
    : file_(file),
      end_(std::min(file.size(), limit)),
      capacity_(static_cast<size_t>(std::min<uint64_t>(end_, kBufferBytes))),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(capacity_)) {}

Status Cursor::require(uint64_t count, uint64_t bytes_each) const {
  if (count <= remaining() / bytes_each) return {};
  if (end_ < file_.size()) {
    return error(StatusCode::bad_file,
                 "{}: {}: {} × {} bytes at byte {} exceed the {} bytes that a header may take",
                 path(), subject_, count, bytes_each, position(), end_);
  }
  return error(StatusCode::bad_file,
               "{}: {}: expected at least {} × {} bytes at byte {}, found {}: it was cut short or "
               "is damaged",
               path(), subject_, count, bytes_each, position(), remaining());
}

Status Cursor::read(std::span<std::byte> out) {
  INFER_CHECK(require(out.size(), 1));
  const size_t buffered = std::min(out.size(), filled_ - next_);
  if (buffered > 0) {
    std::memcpy(out.data(), buffer_.get() + next_, buffered);
    next_ += buffered;
    out = out.subspan(buffered);
  }
  if (out.empty()) return {};
  base_ += next_;
  next_ = filled_ = 0;
  if (out.size() >= capacity_) {
    INFER_CHECK(file_.read_at(base_, out));
    base_ += out.size();
    return {};
  }
  const size_t fill = static_cast<size_t>(std::min<uint64_t>(capacity_, end_ - base_));
  INFER_CHECK(file_.read_at(base_, std::span(buffer_.get(), fill)));
  filled_ = fill;
  next_ = out.size();
  std::memcpy(out.data(), buffer_.get(), out.size());
  return {};
}

Status Cursor::read_string(std::string& out) {
  uint64_t length = 0;
  INFER_CHECK(read_number(length));
  INFER_CHECK(require(length, 1));
  if (filled_ - next_ >= length) {
    out.assign(reinterpret_cast<const char*>(buffer_.get() + next_), length);
    next_ += length;
    return {};
  }
  out.resize(length);
  return read(std::as_writable_bytes(std::span(out)));
}

}  // namespace infer::gguf
