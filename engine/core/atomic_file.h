// Writes a file so that it appears complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// Writes a temporary file in the same folder and renames it at the end. Whenever the process ends,
/// either the old file or the new one exists. A temporary file that a killed process left behind is
/// removed when the same file is written again; those of other writers at work stay. Only a regular
/// file is ever replaced. A symbolic link to a file stays and then leads to the new file; a link to
/// a missing file is refused. Other hard links keep the old file. Errors: io, with the name of the
/// file. After a failure every further call fails.
class AtomicFile {
 public:
  enum class Access : uint8_t {
    as_usual,  ///< a new file: as the process's umask allows; a replaced one: as before
    user_only  ///< only the user, whatever the old file allowed; for files with the user's text
  };
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path,
                                                    Access access = Access::as_usual);
  /// Without commit() the old file is unchanged.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status write(std::span<const std::byte> data);
  /// Called once, at the end. Afterwards the file survives a power cut.
  Status commit();
  bool committed() const { return temporary_.empty(); }

 private:
  AtomicFile(std::string path, Access access) : path_(std::move(path)), access_(access) {}
  Status open();
  Status system_failure(const char* what, std::error_code code);
  Status flush();
  Status write_out(std::span<const std::byte> data);

  std::string path_;
  Access access_;
  std::string temporary_;  // empty before open() and after commit()
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  Status failure_;
};

}  // namespace infer
