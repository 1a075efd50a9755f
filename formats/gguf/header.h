// The header of one GGUF file: metadata and the table of tensors, checked against the file's size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/file.h"
#include "engine/core/tensor_desc.h"
#include "engine/weights/metadata.h"

namespace infer::gguf {

inline constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
inline constexpr uint32_t kVersion = 3;  ///< what is written; 2 is read as well
inline constexpr size_t kMaxNameBytes = 63;
inline constexpr size_t kMaxKeyBytes = 65535;
inline constexpr const char* kAlignmentKey = "general.alignment";
inline constexpr int64_t kDefaultAlignment = 32;
inline constexpr int64_t kMaxAlignment = int64_t{1} << 20;

/// Value types by the numbers of the format.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Whether files hold tensors of this type.
inline bool in_a_file(DType type) { return type != DType::fp4; }

struct TensorEntry {
  std::string name;
  TensorDesc desc;
  uint64_t offset;  ///< bytes from the start of the file; the data lie wholly inside it
};

struct Header {
  Metadata metadata;
  std::vector<TensorEntry> tensors;  ///< in the order of the file; names are unique
};

/// bad_file or unsupported naming file, key or tensor, what was expected and what was found.
/// Reads the header only, however large the file.
Result<Header> read_header(const File& file);

/// NF4 has a type number of our own in GGUF. It is valid only in files with this key.
inline constexpr const char* kNf4Key = "infer.nf4.version";
inline constexpr int64_t kNf4Version = 1;

/// `general.alignment`, or its default; bad_file unless a power of two up to kMaxAlignment.
Result<uint64_t> alignment_of(const Metadata& metadata);

}  // namespace infer::gguf
