// A file that is there in full or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// Writes beside the file and puts that in its place at the end: whenever the process ends, the old
/// file or the new one is there. Access says who may read and write the new one.
/// Only a regular file is ever replaced; a symbolic link to one stays and leads to the new file,
/// one that leads nowhere is refused. Other hard links keep the old file. Failures are io, name the
/// file, and stay.
class AtomicFile {
 public:
  enum class Access : uint8_t {
    as_usual,  ///< a new file: what the process's umask allows; a replaced one: as before
    user_only  ///< the user alone, whatever the old file allowed: for what holds the user's text
  };
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path,
                                                    Access access = Access::as_usual);
  /// Without commit() nothing has changed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status write(std::span<const std::byte> data);
  /// Once, at the end. The file outlasts a power cut then.
  Status commit();
  bool committed() const { return temporary_.empty(); }

 private:
  AtomicFile(std::string path, Access access) : path_(std::move(path)), access_(access) {}
  Status open();
  Status system_failure(const char* what, int code);
  Status flush();
  Status write_out(std::span<const std::byte> data);
  void sync_folder() const;

  std::string path_;
  Access access_;
  std::string temporary_;  // empty before open() and after commit()
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  Status failure_;
};

}  // namespace infer
