#include "hub/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "platform/files.h"
#include "platform/folders.h"

namespace infer::hub {
namespace {

namespace fs = std::filesystem;
using platform::variable;

constexpr size_t kMostCached = 10'000;

Status cannot(const char* what, const fs::path& path, const std::error_code& code) {
  return {StatusCode::io, fmt::format("{}: cannot {}: {}", path.string(), what, code.message())};
}

std::error_code last_error() { return {errno, std::generic_category()}; }

/// The name of a file beside this one, of this process alone.
fs::path beside(const fs::path& path) {
  return path.string() + fmt::format(".{}.part", platform::process_id());
}

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream file(path, std::ios::binary);
  char text[128];
  file.read(text, sizeof(text));
  line.assign(text, static_cast<size_t>(file.gcount()));
  return line.substr(0, line.find_first_of("\r\n"));
}

/// The files of a snapshot that are there; links to what is not there are left out.
std::vector<HubFile> files_of(const fs::path& snapshot) {
  std::vector<HubFile> files;
  std::error_code failed;
  fs::recursive_directory_iterator it(snapshot, fs::directory_options::skip_permission_denied,
                                      failed);
  for (const fs::recursive_directory_iterator end;
       !failed && it != end && files.size() < kMostCached; it.increment(failed)) {
    if (it.depth() > 5) it.disable_recursion_pending();
    std::error_code absent;
    if (!it->is_regular_file(absent)) continue;
    files.push_back({it->path().lexically_relative(snapshot).generic_string(), 0, {}});
  }
  std::ranges::sort(files, {}, &HubFile::path);
  return files;
}

}  // namespace

fs::path hub_home() {
  if (fs::path home = variable("HF_HOME"); !home.empty()) return home;
  const fs::path cache = platform::cache_folder();
  return cache.empty() ? cache : cache / "huggingface";
}

fs::path hub_cache_folder() {
  if (fs::path cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  const fs::path home = hub_home();
  return home.empty() ? home : home / "hub";
}

HubCache::HubCache(const std::string& repository) {
  std::string name = "models--" + repository;
  name.replace(name.find('/'), 1, "--");
  const fs::path cache = fs::absolute(hub_cache_folder());
  folder_ = cache / name;
  blobs_ = folder_ / "blobs";
  snapshots_ = folder_ / "snapshots";
  locks_ = cache / ".locks" / name;
}

Status HubCache::prepare() const {
  for (const fs::path& path : {blobs_, snapshots_, folder_ / "refs", locks_}) {
    std::error_code failed;
    fs::create_directories(path, failed);
    if (failed) return cannot("create", path, failed);
  }
  return {};
}

Status HubCache::link(const std::string& commit, const HubFile& file) const {
  const fs::path path = snapshot(commit) / file.path;
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed) return cannot("create", path.parent_path(), failed);
  const fs::path target = blob(file.hash).lexically_relative(path.parent_path());
  if (fs::read_symlink(path, failed) == target && !failed) return {};
  const fs::path part = beside(path);
  std::error_code ignored;
  fs::remove(part, ignored);
  fs::create_symlink(target, part, failed);
  if (failed) return cannot("create", path, failed);
  fs::rename(part, path, failed);
  if (!failed) return {};
  fs::remove(part, ignored);
  return cannot("create", path, failed);
}

Status HubCache::set_main(const std::string& commit) const {
  const fs::path path = folder_ / "refs" / "main";
  if (first_line(path) == commit) return {};
  const fs::path part = beside(path);
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << commit;
  file.close();
  std::error_code failed = last_error();
  if (file) {
    fs::rename(part, path, failed);
    if (!failed) return {};
  }
  std::error_code ignored;
  fs::remove(part, ignored);
  return cannot("write", path, failed);
}

std::optional<std::string> HubCache::find(const ModelName& wanted) const {
  for (const std::string& commit : snapshots_of(folder_)) {
    const Result<Chosen> chosen = choose(wanted, files_of(snapshot(commit)));
    if (chosen) return path_of(snapshot(commit), *chosen);
  }
  return std::nullopt;
}

std::string path_of(const fs::path& snapshot, const Chosen& chosen) {
  return (chosen.model.empty() ? snapshot : snapshot / chosen.model).string();
}

std::vector<std::string> snapshots_of(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code failed;
  for (fs::directory_iterator it(folder / "snapshots", failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code unknown;
    found.emplace_back(it->last_write_time(unknown), it->path().filename().string());
  }
  const std::string main = first_line(folder / "refs" / "main");
  std::ranges::sort(found, [&](const auto& a, const auto& b) {
    return std::pair(a.second == main, a) > std::pair(b.second == main, b);
  });
  std::vector<std::string> commits;
  commits.reserve(found.size());
  for (auto& [time, commit] : found) commits.push_back(std::move(commit));
  return commits;
}

}  // namespace infer::hub
