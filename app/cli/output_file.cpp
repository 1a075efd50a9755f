#include "cli/output_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "bundle/bundle.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "platform/files.h"
#include "platform/interrupt.h"
#include "platform/part_file.h"

namespace infer::cli {
namespace {

namespace fs = std::filesystem;

Failure cannot(const char* what, const std::string& path, int code) {
  return {kExitRuntime,
          fmt::format("{}: cannot {}: {}", path, what, std::generic_category().message(code))};
}

/// Where a link leads that leads to no file yet. What it leads to may be a link, but not for ever.
fs::path end_of_links(const std::string& given) {
  constexpr int kMost = 40;
  fs::path path = given;
  std::error_code failed;
  for (int i = 0; i < kMost; ++i) {
    if (!fs::is_symlink(fs::symlink_status(path, failed))) return path;
    const fs::path to = fs::read_symlink(path, failed);
    if (failed) break;
    path = path.parent_path() / to;
  }
  throw Failure(kExitRuntime, given + ": links that lead to no file; give another name");
}

/// What is to be replaced: a link leads to its target.
fs::path target_of(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status)) return end_of_links(path);
  if (!fs::is_regular_file(status)) {
    throw Failure(kExitRuntime, path + ": expected a regular file or none");
  }
  const fs::path target = fs::canonical(path, failed);
  return failed ? fs::path(path) : target;
}

/// Whether models in a folder are read from such a file.
bool is_of_checkpoint(const fs::path& file) {
  constexpr std::string_view kEndings[] = {".safetensors", ".json", ".jinja", ".model"};
  return std::ranges::find(kEndings, file.extension().string()) != std::end(kEndings);
}

/// Whether `file` is the input, a part of the model in that folder, or another part of the split
/// model it belongs to.
bool is_part_of(const fs::path& file, const std::string& given) {
  const std::string input = bundle::file_of(given);
  std::error_code failed;
  const auto same = [&](const fs::path& other) { return fs::equivalent(file, other, failed); };
  if (same(input)) return true;
  const bool folder = fs::is_directory(input, failed);
  const std::string split = folder ? "" : split_name(fs::path(input).filename().string());
  if (!folder && split.empty()) return false;
  fs::path beside = folder ? fs::path(input) : fs::path(input).parent_path();
  if (beside.empty()) beside = ".";
  for (fs::directory_iterator at(beside, failed), end; !failed && at != end; at.increment(failed)) {
    const bool part =
        folder ? is_of_checkpoint(at->path()) : split_name(at->path().filename().string()) == split;
    std::error_code ignored;
    if (part && fs::equivalent(file, at->path(), ignored)) return true;
  }
  return false;
}

}  // namespace

std::string split_name(const std::string& name) {
  constexpr std::string_view kPattern = "-ddddd-of-ddddd.gguf";
  if (name.size() < kPattern.size()) return {};
  const std::string_view end = std::string_view(name).substr(name.size() - kPattern.size());
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : kPattern[i] != end[i]) return {};
  }
  return name.substr(0, name.size() - kPattern.size());
}

void require_output(std::string_view flag, const std::string& path,
                    const std::vector<std::string>& inputs) {
  if (path == "-") {
    usage(fmt::format(
        "{}: this cannot be written to stdout, only to a file; for a file named '-', give ./-",
        flag));
  }
  const fs::path target = target_of(path);
  for (const std::string& input : inputs) {
    if (input.empty() || input == "-") continue;
    if (is_part_of(target, input)) {
      usage(fmt::format("{}: {}: is the input {}; give another name", flag, path, input));
    }
  }
  const fs::path folder = target.parent_path();
  const std::string name = folder.empty() ? "." : folder.string();
  std::error_code unknown;
  if (!fs::exists(name, unknown)) {
    throw Failure(kExitRuntime, fmt::format("{}: there is no folder {}", path, name));
  }
  if (const int refused = platform::check_writable(name)) throw cannot("write", path, refused);
}

OutputFile::OutputFile(const std::string& path, bool user_only) : path_(path) {
  if (path == "-") return;
  target_ = target_of(path).string();
  file_ = platform::create_part(target_, part_);
  if (file_ == nullptr) throw cannot("create a file in its folder", path, errno);
  if (user_only) code_ = platform::make_private(file_);
}

OutputFile::~OutputFile() {
  if (!part_.empty()) (void)std::remove(part_.c_str());
  if (file_ != nullptr) (void)std::fclose(file_);
  platform::set_unfinished_file(nullptr);
}

bool OutputFile::write(std::span<const char> bytes) {
  if (file_ == nullptr && !write_out({bytes.data(), bytes.size()})) code_ = EPIPE;
  if (file_ == nullptr) return code_ == 0;
  if (code_ == 0 && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    code_ = errno;
  }
  return code_ == 0;
}

void OutputFile::make_executable() {
  if (file_ != nullptr && code_ == 0) code_ = platform::make_executable(file_);
}

void OutputFile::commit() {
  if (file_ == nullptr) return check_out();
  if (code_ == 0) code_ = platform::sync(file_);
  std::error_code failed;
  if (code_ == 0) fs::rename(part_, target_, failed);
  if (failed) code_ = failed.value();
  if (code_ != 0) throw cannot("write", path_, code_);
  platform::set_unfinished_file(nullptr);
  part_.clear();
  (void)std::fclose(std::exchange(file_, nullptr));  // all has been written
}

void replace_file(const std::string& path, std::string_view content, bool user_only) {
  OutputFile file(path, user_only);
  file.write(content);
  file.commit();
}

}  // namespace infer::cli
