#include "hub/folder_walk.h"

#include <set>
#include <system_error>
#include <utility>

namespace infer::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 5;
constexpr int64_t kMaxEntries = 200'000;
constexpr size_t kMaxSkipped = 1000;

struct Folder {
  fs::path path;
  int depth = 0;
};

}  // namespace

FolderWalk::FolderWalk(std::vector<SkippedPath>& skipped, std::function<bool()> go_on)
    : skipped_(skipped), go_on_(std::move(go_on)) {}

void FolderWalk::skip(const fs::path& path, std::string reason) {
  if (skipped_.size() < kMaxSkipped) skipped_.push_back({path.string(), std::move(reason)});
}

void FolderWalk::visit(const fs::path& folder, const std::function<void(const fs::path&)>& see) {
  std::set<fs::path> seen;
  std::vector<Folder> folders{{folder, 0}};
  std::vector<Folder> links;  // after all folders, so that those keep their own names
  int64_t entries = 0;
  while (!folders.empty() || !links.empty()) {
    std::vector<Folder>& next = folders.empty() ? links : folders;
    const Folder now = std::move(next.back());
    next.pop_back();
    std::error_code failed;
    const fs::path real = fs::canonical(now.path, failed);
    if (failed || !seen.insert(real).second) continue;  // it has gone meanwhile, or was seen
    fs::directory_iterator it(now.path, failed);
    for (const fs::directory_iterator end; !failed && it != end; it.increment(failed)) {
      if (go_on_ && !go_on_()) complete_ = false;
      if (!complete_) return;
      if (++entries > kMaxEntries) {
        return skip(folder, "has more than 200,000 entries; the rest was left out");
      }
      std::error_code unknown;
      const fs::file_status status = it->status(unknown);
      if (fs::is_regular_file(status)) see(it->path());
      if (!fs::is_directory(status) || now.depth >= kMaxDepth) continue;
      (it->is_symlink(unknown) ? links : folders).push_back({it->path(), now.depth + 1});
    }
    if (failed && failed != std::errc::no_such_file_or_directory) {
      skip(now.path, "cannot be read: " + failed.message());
    }
  }
}

}  // namespace infer::hub
