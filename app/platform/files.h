// Files and their rights. Functions that return an int return errno, 0 if nothing failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>

namespace infer::platform {

/// A file that is open for reading and writing, and closed at the end.
class OpenFile {
 public:
  /// Creates the file with these rights if there is none. `follows_link`: if the path is a link,
  /// its target is meant; otherwise a link is a failure.
  OpenFile(const std::filesystem::path& path, uint32_t rights, bool follows_link);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Why it could not be opened; 0: it is open. Nothing else may be called if it is not.
  int failure() const { return failure_; }

  /// Both continue where the last one ended. `count`: the bytes that were read or written, which
  /// may be fewer; 0 after reading: the file ends here.
  int read(std::span<char> to, size_t& count);
  int write(std::span<const char> from, size_t& count);
  /// Makes it empty.
  int clear();
  /// Returns when the bytes survive a power cut.
  int sync();

  /// Takes the file's lock, which one process can hold until it closes the file. EWOULDBLOCK:
  /// another one has it, or try again.
  int try_lock();
  /// Takes a lock that several processes can hold, but none beside the one of try_lock(). Either
  /// takes the place of the other.
  int try_shared_lock();
  /// Whether the path still names this file: another process may have removed it.
  bool is_named(const std::filesystem::path& path) const;

 private:
  int lock(int kind);

  int number_;
  int failure_;
};

/// Makes a folder's names survive a power cut, if the file system can do this.
void sync_folder(const std::filesystem::path& folder);

/// EACCES or such if the file exists and this process may not read it.
int check_readable(const std::string& path);
/// The same of creating files in a folder.
int check_writable(const std::string& folder);
/// Makes an empty file that only the user may read and write. EEXIST if there is one.
int create_private(const std::filesystem::path& path);
/// Bytes of an open regular file; 0 of anything else.
int64_t bytes_of(std::FILE* file);
/// Only the user may read and write the open file.
int make_private(std::FILE* file);
/// Who may read the open file may run it as well.
int make_executable(std::FILE* file);

/// A number that no other process has now, for names of temporary files.
int process_id();
/// The most bytes of this process that were in memory at once. 0 if the system does not say.
int64_t peak_resident_bytes();

}  // namespace infer::platform
