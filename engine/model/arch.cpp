#include "engine/model/arch.h"

#include <algorithm>

#include "engine/core/file.h"

namespace infer {

Result<const ArchDef*> architecture_of(const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  INFER_TRY(const std::optional<std::string> name, metadata.get_string("general.architecture"));
  if (!name) {
    return fail(StatusCode::bad_file, "{}: key 'general.architecture' is missing",
                metadata.source());
  }
  std::string known;
  for (const ArchDef* arch : all_architectures()) {
    for (const char* candidate : arch->names) {
      if (*name == candidate) return arch;
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
  }
  return fail(StatusCode::unsupported, "{}: architecture '{}' is not supported; supported: {}",
              metadata.source(), printable(*name), known);
}

Result<std::unique_ptr<Model>> read_model(const WeightSource& source) {
  INFER_TRY(const ArchDef* arch, architecture_of(source));
  return arch->create(source);
}

}  // namespace infer
