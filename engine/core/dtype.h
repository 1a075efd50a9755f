// Element types. A row of a tensor is a whole number of blocks; dtypes.def is the list.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace infer {

/// Identified by the number that GGUF files use.
enum class DType : uint16_t {
#define INFER_DTYPE(ident, name, id, elements, bytes) ident = id,
#include "engine/core/dtypes.def"
#undef INFER_DTYPE
};

/// What is fixed about a type.
struct DTypeInfo {
  DType type;
  std::string_view name;   ///< as in GGUF, e.g. "Q4_0"
  std::string_view ident;  ///< as on the command line, e.g. "q4_0"
  int32_t block_elements;
  int32_t block_bytes;
};

/// The properties of a type.
const DTypeInfo& dtype_info(DType type);

/// All types, in the order of dtypes.def.
std::span<const DTypeInfo> all_dtypes();

/// The type with this number in GGUF; none if it is not one that can be held.
std::optional<DType> dtype_from_id(uint32_t id);

/// The type with this name, in either case ("Q4_0" or "q4_0").
std::optional<DType> dtype_from_name(std::string_view name);

/// True for types of several elements a block.
inline bool is_quantised(DType type) { return dtype_info(type).block_elements > 1; }

}  // namespace infer
