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

/// Whether the file `output` is the input or one of its files.
bool is_part_of(const fs::path& input, const fs::path& output) {
  std::error_code ignored;
  if (fs::equivalent(input, output, ignored)) return true;
  const bool folder = fs::is_directory(input, ignored);
  const std::string file = input.filename().string();
  const std::string_view set = folder ? std::string_view() : split_name(file);
  if (!folder && set.empty() && !is_of_checkpoint(input)) return false;
  const fs::path parent = folder ? input : input.parent_path();
  const os::Answer<std::vector<std::string>> names =
      os::names_in(parent.empty() ? "." : parent.string());
  return names && std::ranges::any_of(*names, [&](const std::string& name) {
           const bool part = set.empty() ? is_of_checkpoint(name) : split_name(name) == set;
           return part && fs::equivalent(parent / name, output, ignored);
         });
}

}  // namespace

Status check_output(std::initializer_list<std::string_view> inputs, const std::string& output) {
  std::error_code ignored;
  if (!fs::exists(output, ignored)) return {};
  for (const std::string_view input : inputs) {
    if (input.empty() || !is_part_of(input, output)) continue;
    return error(StatusCode::invalid_argument, "{}: is part of the input; expected another file",
                 output);
  }
  return {};
}

}  // namespace infer
