#include "engine/core/dtype.h"

#include <algorithm>
#include <array>

namespace infer {
namespace {

constexpr std::array kInfos = {
#define INFER_DTYPE(ident, name, id, elements, bytes) \
  DTypeInfo{DType::ident, name, #ident, elements, bytes},
#include "engine/core/dtypes.def"
#undef INFER_DTYPE
};

constexpr int kMaxId = 1024;

/// id → position in kInfos, −1 where there is none.
constexpr auto kById = [] {
  std::array<int8_t, kMaxId> table{};
  table.fill(-1);
  for (size_t i = 0; i < kInfos.size(); ++i) {
    table[static_cast<size_t>(kInfos[i].type)] = static_cast<int8_t>(i);
  }
  return table;
}();

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

const DTypeInfo& dtype_info(DType type) {
  return kInfos[static_cast<size_t>(kById[static_cast<size_t>(type)])];
}

std::span<const DTypeInfo> all_dtypes() { return kInfos; }

std::optional<DType> dtype_from_id(uint32_t id) {
  if (id >= kMaxId || kById[id] < 0) return std::nullopt;
  return static_cast<DType>(id);
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : kInfos) {
    if (std::ranges::equal(name, info.ident, {}, lower)) return info.type;
  }
  return std::nullopt;
}

}  // namespace infer
