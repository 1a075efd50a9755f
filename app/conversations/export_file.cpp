#include "conversations/export_file.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include "conversations/export.h"

namespace infer::conversations {
namespace {

/// Writes beside the file first, so that a full disk leaves the old one.
Status replace_file(const std::string& path, const std::function<Status(std::ostream&)>& write) {
  const std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  Status status = out ? write(out)
                      : Status(StatusCode::io, path +
                                                   ": cannot be written: check that the folder "
                                                   "exists and that you may write to it");
  out.close();
  // Conversations are private, like the file that they come from.
  std::error_code unknown;
  using std::filesystem::perms;
  std::filesystem::permissions(part, perms::owner_read | perms::owner_write, unknown);
  if (status.ok() && !out) {
    status = {StatusCode::io, path + ": could not be written completely: the disk may be full"};
  }
  std::error_code failed;
  if (status.ok()) std::filesystem::rename(part, path, failed);
  if (failed) status = {StatusCode::io, path + ": cannot be written: " + failed.message()};
  if (!status.ok()) std::filesystem::remove(part, failed);
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
