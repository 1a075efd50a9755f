// Files that commands write: there in full or not at all, and never in place of what is read.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace infer::cli {

/// Throws Failure unless a file of this name can be written: what takes long should not fail at its
/// end. Usage if it is one of the `inputs` under any name (the same file by device and inode): a
/// file, a file within a directory, or another part of a split model; or if it is "-". `flag` says
/// in messages what names the output. Empty inputs and those that are "-" are skipped.
void require_output(std::string_view flag, const std::string& path,
                    const std::vector<std::string>& inputs);

/// Writes beside the file and puts that in its place with commit(); "-": to stdout at once. Only a
/// regular file is ever replaced. `user_only`: only the user can read it. All functions throw
/// Failure; nothing has changed then.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path, bool user_only = false);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// False if the file cannot be written; commit() then says why.
  bool write(std::span<const char> bytes);
  bool failed() const { return code_ != 0; }
  void commit();

 private:
  std::string path_;    // as it was given
  std::string target_;  // where a link leads
  std::string part_;
  std::FILE* file_ = nullptr;
  int code_ = 0;  // errno of the first failure
};

/// The whole of a file.
void replace_file(const std::string& path, std::string_view content, bool user_only = false);

}  // namespace infer::cli
