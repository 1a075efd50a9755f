#include "conversations/export_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <ostream>
#include <streambuf>
#include <system_error>

#include "conversations/export.h"
#include "platform/files.h"
#include "platform/interrupt.h"
#include "platform/part_file.h"

namespace infer::conversations {
namespace {

namespace fs = std::filesystem;

/// Writes to an open file.
class FileBuffer final : public std::streambuf {
 public:
  explicit FileBuffer(std::FILE* file) : file_(file) {}

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    return std::fputc(c, file_);
  }
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    return static_cast<std::streamsize>(std::fwrite(from, 1, static_cast<size_t>(count), file_));
  }
  int sync() override { return std::fflush(file_) == 0 ? 0 : -1; }

 private:
  std::FILE* file_;
};

Status failure(const std::string& path, int code) {
  return {StatusCode::io, path + ": cannot be written: " + std::generic_category().message(code)};
}

/// Writes beside the file first, so that a full disk leaves the old one. Conversations are private,
/// like the file that they come from.
Status replace_file(const std::string& path, const std::function<Status(std::ostream&)>& write) {
  std::string part;
  std::FILE* const file = platform::create_part(path, part);
  if (file == nullptr) return failure(path, errno);
  int failed = platform::make_private(file);
  Status status;
  if (failed == 0) {
    FileBuffer buffer(file);
    std::ostream out(&buffer);
    errno = 0;
    status = write(out);
    if (!out) failed = errno != 0 ? errno : EIO;
  }
  if (failed == 0 && status.ok()) failed = platform::sync(file);
  if (failed == 0 && status.ok()) {
    std::error_code refused;
    fs::rename(part, path, refused);
    failed = refused.value();
  }
  if (failed != 0) status = failure(path, failed);
  if (!status.ok()) (void)std::remove(part.c_str());
  platform::set_unfinished_file(nullptr);
  (void)std::fclose(file);  // all has been written
  return status;
}

}  // namespace

Status export_file(Store& store, const std::vector<Id>& ids, const std::string& path) {
  return replace_file(path, [&](std::ostream& out) { return export_json(store, ids, out); });
}

Status export_markdown_file(Store& store, Id conversation, const std::string& path) {
  const Result<Tree> tree = store.load(conversation);
  if (!tree) return tree.error();
  return replace_file(path, [&](std::ostream& out) -> Status {
    out << to_markdown(*tree);
    return {};
  });
}

}  // namespace infer::conversations
