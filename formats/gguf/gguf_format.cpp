#include <cstring>

#include "engine/core/file.h"
#include "engine/weights/weight_source.h"
#include "formats/gguf/header.h"
#include "formats/gguf/source.h"
#include "formats/gguf/writer.h"

namespace infer {

const FormatDef& gguf_format();

namespace {

bool starts_with_magic(const std::string& path) {
  const Result<File> file = File::open(path);
  if (!file || file->size() < sizeof(gguf::kMagic)) return false;
  std::byte start[sizeof(gguf::kMagic)];
  return file->read_at(0, start).ok() && std::memcmp(start, gguf::kMagic, sizeof(start)) == 0;
}

/// The vocabulary is among the file's metadata.
Result<std::unique_ptr<WeightSource>> open(const std::string& path, ModelParts) {
  return gguf::open_source(path);
}

}  // namespace

const FormatDef& gguf_format() {
  static constexpr FormatDef def{"GGUF", starts_with_magic, open, create_gguf};
  return def;
}

}  // namespace infer
