// Files that commands write. They appear complete or not at all, and never replace an input.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace infer::cli {

/// Throws Failure if a file of this name cannot be written, so that long work does not fail at its
/// end. The failure is one of usage if the path is "-" or one of the `inputs` under any name (same
/// device and inode): a file, a file in a directory, or another part of a split model. `flag`: the
/// flag that names the output, for messages. Empty inputs and "-" are skipped.
void require_output(std::string_view flag, const std::string& path,
                    const std::vector<std::string>& inputs);

/// The name of a split model's part without "-00001-of-00003.gguf", which all parts share; empty if
/// it is none.
std::string split_name(const std::string& name);

/// Writes a temporary file in the same folder; commit() renames it. What a killed process left of
/// such a file is removed when the same file is written again. For "-" writes directly to
/// stdout. Only a regular file is ever replaced. `user_only`: only the user can read the file. All
/// functions throw Failure; the old file is then unchanged.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path, bool user_only = false);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// False if the file cannot be written; commit() then says why.
  bool write(std::span<const char> bytes);
  bool failed() const { return code_ != 0; }
  /// Whoever may read the file may also run it.
  void make_executable();
  void commit();

 private:
  std::string path_;    // as given
  std::string target_;  // the file that path_ leads to, if it is a link
  std::string part_;
  std::FILE* file_ = nullptr;
  int code_ = 0;  // errno of the first failure
};

/// The whole of a file.
void replace_file(const std::string& path, std::string_view content, bool user_only = false);

}  // namespace infer::cli
