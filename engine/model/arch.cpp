#include "engine/model/arch.h"

#include <algorithm>

namespace infer {

Result<std::unique_ptr<Model>> create_model(const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  INFER_TRY(const std::optional<std::string> name, metadata.get_string("general.architecture"));
  if (!name) {
    return fail(StatusCode::bad_file, "{}: key 'general.architecture' is missing",
                metadata.source());
  }
  std::string known;
  for (const ArchDef* arch : all_architectures()) {
    for (const char* candidate : arch->names) {
      if (*name == candidate) return arch->create(source);
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
  }
  return fail(StatusCode::unsupported, "{}: architecture '{}' is not supported; supported: {}",
              metadata.source(), *name, known);
}

}  // namespace infer
