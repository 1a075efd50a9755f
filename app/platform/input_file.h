// Files that are read at any place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace infer::platform {

/// The file of the program that runs.
inline constexpr const char* kOwnFile = "/proc/self/exe";

/// A file that is open for reading. Functions that return an int return errno, 0 if nothing failed.
class InputFile {
 public:
  /// Does not wait for the writer of a pipe.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Why it could not be opened; 0: it is open. Nothing else may be called if it is not.
  int failure() const { return failure_; }
  /// Bytes; 0 if it is no regular file.
  uint64_t size() const { return size_; }
  /// `count`: the bytes that were read, which may be fewer; 0: the file ends here.
  int read_at(uint64_t offset, std::span<char> to, size_t& count) const;
  /// Maps bytes of it for reading, as long as the process runs. `offset`: a multiple of 64 KiB.
  int map(uint64_t offset, size_t size, const std::byte*& bytes) const;

 private:
  int number_;
  int failure_;
  uint64_t size_ = 0;
};

}  // namespace infer::platform
