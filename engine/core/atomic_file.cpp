#include "engine/core/atomic_file.h"

#include <string_view>
#include <utility>

#include "engine/core/platform/files.h"

namespace infer {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr std::string_view kPart = ".part";

/// Whether a name is one that AtomicFile::open() gives: "NAME.PROCESS-ATTEMPT.part".
bool is_temporary(std::string_view name, std::string_view target) {
  if (!name.starts_with(target) || !name.ends_with(kPart)) return false;
  if (name.size() < target.size() + kPart.size()) return false;
  const std::string_view middle =
      name.substr(target.size(), name.size() - target.size() - kPart.size());
  const size_t dash = middle.find('-');
  return middle.size() > 3 && middle[0] == '.' && dash > 1 && dash + 1 < middle.size() &&
         middle.find_first_not_of("0123456789", 1) == dash &&
         middle.find_first_not_of("0123456789", dash + 1) == std::string_view::npos;
}

/// Removes a temporary file unless somebody writes it. A writer has the file's lock, which ends
/// with its process. What has been opened may have lost its name meanwhile, and another file have
/// it now.
void remove_if_abandoned(const std::string& path) {
  const os::Answer<os::FileInfo> info = os::examine_link(path);
  if (!info || info->kind != os::FileKind::regular) return;
  const os::Answer<int> file = os::open_to_read(path);
  if (!file) return;
  if (!os::try_lock(*file) && os::is_named(*file, path)) os::remove_file(path.c_str());
  os::close_file(*file);
}

void remove_abandoned_beside(const std::string& target) {
  const size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : target.substr(0, slash + 1);
  const std::string name = target.substr(slash == std::string::npos ? 0 : slash + 1);
  const os::Answer<std::vector<std::string>> beside = os::names_in(folder);
  if (!beside) return;
  for (const std::string& found : *beside) {
    if (is_temporary(found, name)) remove_if_abandoned(folder + found);
  }
}

/// Takes the lock of a new temporary file. False if another writer has taken it for an abandoned
/// one before: then it is removed or will be. Without locks nobody removes it.
bool lock_new(int file, const std::string& path) {
  const std::error_code failed = os::try_lock(file);
  return failed != std::errc::operation_would_block && os::is_named(file, path);
}

}  // namespace

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path, Access access) {
  std::unique_ptr<AtomicFile> file(new AtomicFile(path, access));
  file->buffer_.reserve(kBufferBytes);
  INFER_CHECK_R(file->open());
  return file;
}

AtomicFile::~AtomicFile() {
  // First the name: closing gives up the lock, and then another writer may have it.
  if (!temporary_.empty()) os::remove_file(temporary_.c_str());
  os::close_file(fd_);
}

Status AtomicFile::open() {
  os::Answer<os::FileInfo> old = os::examine_link(path_);
  const bool replaces = old.has_value();
  if (replaces) {
    const bool link = old->kind == os::FileKind::link;
    if (link) old = os::examine(path_);
    if (!old) {
      return error(StatusCode::io, "{}: a link to a file that does not exist: {}", path_,
                   old.error().message());
    }
    if (old->kind != os::FileKind::regular) {
      return error(StatusCode::io, "{}: expected a regular file or none, found {}", path_,
                   old->kind == os::FileKind::folder ? "a folder" : "a device, pipe or socket");
    }
    if (link) {
      os::Answer<std::string> target = os::resolved(path_);
      if (!target) return system_failure("follow the link", target.error());
      path_ = *std::move(target);
    }
  }
  constexpr uint32_t kUserOnly = 0600;
  const bool is_private = access_ == Access::user_only;
  const uint32_t usual = replaces ? old->rights : 0666;
  const uint32_t rights = is_private ? kUserOnly : usual;
  remove_abandoned_beside(path_);
  constexpr int kAttempts = 100;
  std::error_code failed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = fmt::format("{}.{}-{}{}", path_, os::process_id(), attempt, kPart);
    const os::Answer<int> created = os::create_file(name, rights);
    if (created && !lock_new(*created, name)) {
      os::close_file(*created);
      continue;
    }
    if (created) {
      fd_ = *created;
      temporary_ = std::move(name);
      // The process may be set to create files with fewer rights than the old one had.
      if (!replaces && !is_private) return {};
      failed = os::set_rights(fd_, rights);
      return failed ? system_failure("keep its mode", failed) : Status();
    }
    failed = created.error();
    if (failed != std::errc::file_exists) break;
  }
  return system_failure("create a file in its folder", failed);
}

Status AtomicFile::write(std::span<const std::byte> data) {
  INFER_CHECK(failure_);
  if (buffer_.size() + data.size() > kBufferBytes) INFER_CHECK(flush());
  if (data.size() > kBufferBytes) return write_out(data);
  buffer_.insert(buffer_.end(), data.begin(), data.end());
  return {};
}

Status AtomicFile::commit() {
  INFER_CHECK(failure_);
  INFER_CHECK(flush());
  if (const std::error_code failed = os::sync(fd_)) return system_failure("write", failed);
  const std::error_code renamed = os::rename_over(temporary_.c_str(), path_.c_str());
  if (renamed) return system_failure("replace", renamed);
  temporary_.clear();
  os::close_file(std::exchange(fd_, -1));  // all has been written
  // The file itself is safe already: a failure to make its new name last is none.
  const size_t slash = path_.rfind('/');
  os::sync_folder(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
  return {};
}

Status AtomicFile::system_failure(const char* what, std::error_code code) {
  failure_ = error(StatusCode::io, "{}: cannot {}: {}", path_, what, code.message());
  return failure_;
}

Status AtomicFile::flush() {
  INFER_CHECK(write_out(buffer_));
  buffer_.clear();
  return {};
}

Status AtomicFile::write_out(std::span<const std::byte> data) {
  while (!data.empty()) {
    const os::Answer<size_t> done = os::write(fd_, data);
    if (!done) return system_failure("write", done.error());
    data = data.subspan(*done);
  }
  return {};
}

}  // namespace infer
