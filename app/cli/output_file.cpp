#include "cli/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cli/failure.h"

namespace infer::cli {
namespace {

namespace fs = std::filesystem;

Failure cannot(const char* what, const std::string& path, int code) {
  return {kExitRuntime,
          fmt::format("{}: cannot {}: {}", path, what, std::generic_category().message(code))};
}

/// What is to be replaced: a link leads to its target.
fs::path target_of(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status)) return path;
  if (!fs::is_regular_file(status)) {
    throw Failure(kExitRuntime, path + ": expected a regular file or none");
  }
  const fs::path target = fs::canonical(path, failed);
  return failed ? fs::path(path) : target;
}

}  // namespace

void require_writable(const std::string& path) {
  const fs::path folder = target_of(path).parent_path();
  const std::string name = folder.empty() ? "." : folder.string();
  if (access(name.c_str(), W_OK | X_OK) != 0) throw cannot("write", path, errno);
}

void replace_file(const std::string& path, std::string_view content, bool user_only) {
  const std::string target = target_of(path).string();
  const std::string part = fmt::format("{}.{}.part", target, getpid());
  std::FILE* file = std::fopen(part.c_str(), "wbxe");
  if (file == nullptr) throw cannot("create a file beside it", path, errno);
  const bool hidden = !user_only || fchmod(fileno(file), S_IRUSR | S_IWUSR) == 0;
  const bool written =
      hidden && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  int code = written ? 0 : errno;
  if (std::fclose(file) != 0 && code == 0) code = errno;
  if (code == 0 && std::rename(part.c_str(), target.c_str()) != 0) code = errno;
  if (code == 0) return;
  (void)std::remove(part.c_str());
  throw cannot("write", path, code);
}

}  // namespace infer::cli
