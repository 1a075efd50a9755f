#include "formats/gguf/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <system_error>

namespace infer::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in the file");

namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kMaxReadBytes = size_t{1} << 30;      // Linux moves a little under 2 GiB a call
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 56;  // element counts stay well inside int64_t

std::string reason(int code) { return std::generic_category().message(code); }

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

Result<File> File::open(const std::string& path) {
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

Status File::read_at(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return error(StatusCode::bad_file, "{}: {} bytes at byte {} are beyond its end at {}", path_,
                 out.size(), offset, size_);
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
