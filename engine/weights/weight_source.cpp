#include "engine/weights/weight_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace infer {

const SideTensor* Weight::side(std::string_view role) const {
  const auto it = std::ranges::find(sides, role, &SideTensor::role);
  return it == sides.end() ? nullptr : &*it;
}

const Weight* WeightSource::find(std::string_view name) const {
  const std::span<const Weight> all = weights();
  const auto it = std::ranges::find(all, name, &Weight::name);
  return it == all.end() ? nullptr : &*it;
}

Result<std::unique_ptr<WeightSource>> open_model(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return fail(StatusCode::not_found, "{}: no such file or directory", path);
  }
  if (access(path.c_str(), R_OK) != 0) {
    return fail(StatusCode::io, "{}: cannot open: {}", path,
                std::generic_category().message(errno));
  }
  std::string names;
  for (const FormatDef* format : all_formats()) {
    if (format->recognise(path)) return format->open(path);
    names += names.empty() ? format->name : std::string(", ") + format->name;
  }
  return fail(StatusCode::bad_file, "{}: not a model file: expected one of {}", path, names);
}

}  // namespace infer
