// Files by the numbers that the system gives to open ones. Above this stand File, MappedFile and
// AtomicFile, whose messages name the file. Failures here are the system's codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "engine/core/status.h"

namespace infer::os {

template <typename T>
using Answer = tl::expected<T, std::error_code>;

enum class FileKind : uint8_t { regular, folder, link, other };

struct FileInfo {
  FileKind kind;
  uint64_t bytes;
  uint32_t rights;  ///< who may read and write it, as the nine bits of POSIX
};

Answer<FileInfo> examine(int file);
/// Of what a link leads to.
Answer<FileInfo> examine(const std::string& path);
/// Of a link itself.
Answer<FileInfo> examine_link(const std::string& path);
/// The path without links. The file exists.
Answer<std::string> resolved(const std::string& path);
/// Ok if this process may read it.
std::error_code check_readable(const std::string& path);
/// Ok if only this user and root may write to the file or folder. Errors: invalid_argument, which
/// says what is wrong; io.
Status check_writers(const std::string& path);
/// The same of an open file; `path` is for messages.
Status check_writers(const std::string& path, int file);

/// The names of what is in a folder, without "." and "..", in no order. Unlike the standard
/// library's iterator it can run out of memory without ending the process.
Answer<std::vector<std::string>> names_in(const std::string& folder);

/// Opens it for reading. Does not wait for the writer of a pipe.
Answer<int> open_to_read(const std::string& path);
/// Creates a file for writing; the umask is taken from the rights. file_exists if there is one.
Answer<int> create_file(const std::string& path, uint32_t rights);
/// Takes the lock of an open file, which one opening of it can have at a time, until it is closed
/// or the process ends. operation_would_block: another one has it; another code: the file system
/// has no locks.
std::error_code try_lock(int file);
/// Whether the path names this open file, and not another one or none.
bool is_named(int file, const std::string& path);
/// These rights whatever the umask.
std::error_code set_rights(int file, uint32_t rights);
/// Creates a file in a folder that has no name and is gone once it is closed.
Answer<int> create_nameless(const std::string& folder);
/// Nothing of −1.
std::error_code close_file(int file);

/// Some bytes or all, at least one; 0: the file ends here.
Answer<size_t> read_at(int file, std::span<std::byte> to, uint64_t offset);
Answer<size_t> write_at(int file, std::span<const std::byte> from, uint64_t offset);
Answer<size_t> write(int file, std::span<const std::byte> from);
/// Returns when the file's bytes survive a power cut.
std::error_code sync(int file);
/// The same of a folder's names, where the file system can do this.
void sync_folder(const std::string& folder);
/// Renames a file over another one, in one step.
std::error_code rename_over(const char* from, const char* to);
void remove_file(const char* path);
/// A number that no other process has now, for names of temporary files.
int process_id();

}  // namespace infer::os
