#include "engine/jobs/output_check.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "engine/core/platform/files.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

/// What the parts of a split model have in common: PREFIX of PREFIX-00002-of-00003.gguf, or
/// nothing.
std::string_view split_name(std::string_view path) {
  constexpr std::string_view kEnd = "-00000-of-00000.gguf";
  if (path.size() <= kEnd.size()) return {};
  const std::string_view end = path.substr(path.size() - kEnd.size());
  for (size_t i = 0; i < kEnd.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kEnd[i] == '0' ? !digit : end[i] != kEnd[i]) return {};
  }
  return path.substr(0, path.size() - kEnd.size());
}

bool is_of_checkpoint(const fs::path& path) {
  constexpr std::string_view kEndings[] = {".safetensors", ".json", ".jinja", ".model"};
  return std::ranges::find(kEndings, path.extension().string()) != std::end(kEndings);
}

}  // namespace

Status check_output(const std::string& input, const std::string& output) {
  std::error_code ignored;
  if (!fs::exists(output, ignored)) return {};
  const std::string_view set = split_name(input);
  bool same = fs::equivalent(input, output, ignored) || (!set.empty() && set == split_name(output));
  const bool folder = fs::is_directory(input, ignored);
  if (folder || is_of_checkpoint(input)) {
    const fs::path parent = folder ? fs::path(input) : fs::path(input).parent_path();
    const os::Answer<std::vector<std::string>> names =
        os::names_in(parent.empty() ? "." : parent.string());
    for (size_t i = 0; names && !same && i < names->size(); ++i) {
      const fs::path part = parent / (*names)[i];
      same = is_of_checkpoint(part) && fs::equivalent(part, output, ignored);
    }
  }
  if (!same) return {};
  return error(StatusCode::invalid_argument, "{}: is part of the input; expected another file",
               output);
}

}  // namespace infer
