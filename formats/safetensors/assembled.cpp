#include "formats/safetensors/assembled.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace infer::safetensors {
namespace {

class Number final : public AssembledTensor {
 public:
  explicit Number(float value) : value_(value) {}
  Status read(int64_t, int64_t, std::byte* out) const override {
    std::memcpy(out, &value_, sizeof(value_));
    return {};
  }

 private:
  float value_;
};

}  // namespace

Result<Assembled> assembled_number(const std::string& name, float value, size_t place) {
  INFER_TRY(const TensorDesc desc, make_tensor(DType::f32, std::array{int64_t{1}}));
  return Assembled{name, desc, place, std::make_unique<Number>(value)};
}

PartTable::PartTable(const Metadata& metadata, const std::vector<StoredTensor>& tensors)
    : metadata_(metadata), tensors_(tensors), taken_(tensors.size()) {
  for (size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].entry.name, i);
}

const StoredTensor* PartTable::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

const StoredTensor* PartTable::take(const std::string& name) {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return nullptr;
  taken_[it->second] = true;
  return &tensors_[it->second];
}

Result<const StoredTensor*> PartTable::take(const std::string& name,
                                            std::initializer_list<DType> types, int64_t elements) {
  const StoredTensor* tensor = take(name);
  if (tensor == nullptr) {
    return fail(StatusCode::bad_file, "{}: tensor '{}' is missing", metadata_.source(),
                printable(name));
  }
  const TensorDesc& found = tensor->entry.desc;
  const bool typed =
      tensor->entry.widen == Widen::none && std::ranges::find(types, found.type) != types.end();
  const bool sized = elements == 0 ? found.elements() > 0 : found.elements() == elements;
  if (typed && sized) return tensor;
  std::string expected;
  for (const DType type : types) {
    if (!expected.empty()) expected += " or ";
    expected += dtype_info(type).name;
  }
  if (elements > 0) expected += fmt::format(" of {} elements", elements);
  return tl::unexpected(
      bad_tensor(*tensor, fmt::format("expected {}, found {}", expected, to_string(found))));
}

void PartTable::take_activation_scales() {
  constexpr std::string_view kEndings[] = {".input_scale",      ".input_global_scale",
                                           ".output_scale",     ".activation_scale",
                                           "_activation_scale", ".q_scale",
                                           ".k_scale",          ".v_scale"};
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::string& name = tensors_[i].entry.name;
    if (std::ranges::any_of(kEndings, [&](auto ending) { return name.ends_with(ending); })) {
      taken_[i] = true;
    }
  }
}

bool PartTable::ends(const std::string& name, std::string_view ending, std::string& base) {
  if (!name.ends_with(ending)) return false;
  base = name.substr(0, name.size() - ending.size());
  return true;
}

Status bad_tensor(const StoredTensor& tensor, const std::string& what) {
  return error(StatusCode::bad_file, "{}: tensor '{}': {}", tensor.file->path(),
               printable(tensor.entry.name), what);
}

}  // namespace infer::safetensors
