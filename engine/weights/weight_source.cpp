#include "engine/weights/weight_source.h"

#include <algorithm>

#include "engine/core/file.h"
#include "engine/core/platform/files.h"

namespace infer {

const Weight* WeightSource::find(std::string_view name) const {
  const std::span<const Weight> all = weights();
  const auto it = std::ranges::find(all, name, &Weight::name);
  return it == all.end() ? nullptr : &*it;
}

std::vector<DType> WeightSource::types() const {
  std::vector<DType> types;
  for (const Weight& weight : weights()) types.push_back(weight.desc.type);
  std::ranges::sort(types);
  const auto repeated = std::ranges::unique(types);
  types.erase(repeated.begin(), repeated.end());
  return types;
}

namespace {

/// With the first format that recognises it.
Result<std::unique_ptr<WeightSource>> open_known(const std::string& path, ModelParts parts) {
  std::string names;
  for (const FormatDef* format : all_formats()) {
    if (format->recognise(path)) return format->open(path, parts);
    names += names.empty() ? format->name : std::string(", ") + format->name;
  }
  if (const Result<File> file = File::open(path)) INFER_CHECK_R(check_fetched(*file));
  return fail(StatusCode::bad_file, "{}: not a model file: expected one of {}", path, names);
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_model(const std::string& path, ModelParts parts) {
  if (is_memory_path(path)) return open_known(path, parts);
  const os::Answer<os::FileInfo> info = os::examine(path);
  if (!info) return fail(StatusCode::not_found, "{}: no such file or directory", path);
  if (const std::error_code refused = os::check_readable(path)) {
    return fail(StatusCode::io, "{}: cannot open: {}", path, refused.message());
  }
  if (info->kind == os::FileKind::other) {
    return fail(StatusCode::bad_file,
                "{}: expected a model file or a directory, found a pipe, device or socket", path);
  }
  return open_known(path, parts);
}

Result<TokenizerSpec> open_vocabulary(const std::string& path) {
  for (const FormatDef* format : all_formats()) {
    if (format->vocabulary == nullptr) continue;
    Result<TokenizerSpec> found = format->vocabulary(path);
    if (found || found.error().code() != StatusCode::not_found) return found;
  }
  return fail(StatusCode::not_found, "{}: no vocabulary", path);
}

Result<std::unique_ptr<WeightSink>> create_model_file(std::string_view format,
                                                      const std::string& path,
                                                      const Metadata& metadata) {
  std::string names;
  for (const FormatDef* def : all_formats()) {
    if (def->create == nullptr) continue;
    if (format == def->name) return def->create(path, metadata);
    names += names.empty() ? def->name : std::string(", ") + def->name;
  }
  return fail(StatusCode::invalid_argument, "{}: cannot write the format '{}': expected one of {}",
              path, format, names);
}

}  // namespace infer
